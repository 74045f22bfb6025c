package main

import (
	"net"

	"reprise/internal/httpserver"
)

// proxyFlags describe the proxies between the server and its clients.
type proxyFlags struct {
	TrustedProxies []string `placeholder:"ADDRESS" help:"Proxy, or network of proxies such as 10.0.0.0/8, that reports its clients by Forwarded, or X-Forwarded-For and X-Forwarded-Proto. May be repeated. Default: none; these headers are then ignored."`
	Insecure       bool     `help:"Allow plain HTTP on an address that is not loopback. Without it, and without --trusted-proxies, such an address needs --tls-cert and --tls-key."`
}

// apply sets the proxies in the server's options.
func (f *proxyFlags) apply(opts *httpserver.Options) (*httpserver.Options, error) {
	proxies, err := httpserver.ParseProxies(f.TrustedProxies)
	if err != nil {
		return nil, usage("--trusted-proxies: %w", err)
	}
	opts.TrustedProxies = proxies
	return opts, nil
}

// check refuses plain HTTP on addresses that other machines can reach, unless it was requested.
func (f *proxyFlags) check(address string, encrypted *tlsFlags) error {
	if f.Insecure || len(f.TrustedProxies) > 0 || encrypted.TLSCert != "" || encrypted.TLSKey != "" {
		return nil
	}
	loopback, err := isLoopback(address)
	if err != nil || loopback {
		return err
	}
	return usage("--listen %s is not loopback, and tokens and output would cross the network as plain HTTP: "+
		"take --tls-cert and --tls-key; or --trusted-proxies ADDRESS behind a proxy with TLS; "+
		"or --insecure where no other program can listen", address)
}

// isLoopback reports whether only this machine can reach a listen address.
func isLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, usage("--listen %q: %w", address, err)
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback(), nil
}
