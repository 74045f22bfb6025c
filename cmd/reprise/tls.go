package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"reprise/internal/httpserver"
)

// tlsFlags encrypt the connections of clients.
type tlsFlags struct {
	TLSCert string `name:"tls-cert" placeholder:"FILE" help:"Certificate of the server and its chain, in PEM; enables TLS. It is read again when it changes."`
	TLSKey  string `name:"tls-key" placeholder:"FILE" help:"Key of the certificate, in PEM. Others must not be able to read the file."`

	TLSClientCA string `name:"tls-client-ca" placeholder:"FILE" help:"Certificates, in PEM, of the authorities that sign client certificates. A client certificate authenticates as the API key whose id is its common name, or is in its URI reprise:key:ID."`
}

// tlsConfig is what encrypts connections, nil if they are plain.
func (f *tlsFlags) tlsConfig(logger *slog.Logger) (*tls.Config, error) {
	switch {
	case f.TLSCert == "" && f.TLSKey == "" && f.TLSClientCA != "":
		return nil, usage("--tls-client-ca needs --tls-cert and --tls-key")
	case f.TLSCert == "" && f.TLSKey == "":
		return nil, nil // that is what was asked for
	case f.TLSCert == "" || f.TLSKey == "":
		return nil, usage("--tls-cert and --tls-key belong together")
	}
	config, err := httpserver.TLSConfig(f.TLSCert, f.TLSKey, logger)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return config, f.acceptClients(config)
}

// acceptClients lets clients present certificates, if that was asked for. Those without one present another credential.
func (f *tlsFlags) acceptClients(config *tls.Config) error {
	if f.TLSClientCA == "" {
		return nil
	}
	text, err := os.ReadFile(f.TLSClientCA)
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return usage("--tls-client-ca %s: there is no certificate in PEM", f.TLSClientCA)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	return nil
}
