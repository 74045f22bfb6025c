package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
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
	c := &certificate{cert: f.TLSCert, key: f.TLSKey, logger: logger}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
		NextProtos:     []string{"h2", "http/1.1"},
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

// certificate is that of a server, as the files have it.
type certificate struct {
	cert, key string
	logger    *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	state  [2]fileState // of what was loaded, or could not be
	looked time.Time
}

// fileState tells one content of a file from another.
type fileState struct {
	modified time.Time
	size     int64
}

// certificateEvery is the time between two looks at the files.
const certificateEvery = time.Second

// current is the certificate in the files. One that cannot be read leaves the one before in use.
func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= certificateEvery {
		before := c.state
		if err := c.load(); err != nil && c.state != before {
			c.logger.Error("the certificate has changed and cannot be used; the one before is still in use",
				"error", err)
		} else if c.state != before {
			c.logger.Info("the certificate was read again", "file", c.cert)
		}
	}
	return c.loaded
}

// load reads the files if they have changed since the last time.
func (c *certificate) load() error {
	c.looked = time.Now()
	state, err := c.look()
	if err != nil || state == c.state {
		return err
	}
	c.state = state
	loaded, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.loaded = &loaded
	}
	return err
}

// look finds out the state of the files, and refuses a key that everybody can read.
func (c *certificate) look() (state [2]fileState, err error) {
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return state, err
		}
		if path == c.key && info.Mode()&(fs.ModePerm&0o007) != 0 {
			return state, fmt.Errorf("%s may be used by everybody (%v): chmod 600 it, and replace it if others may have read it",
				path, info.Mode())
		}
		state[i] = fileState{info.ModTime(), info.Size()}
	}
	return state, nil
}
