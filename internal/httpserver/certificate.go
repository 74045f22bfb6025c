package httpserver

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLSConfig returns a configuration with the certificate and the key in two files, in PEM, which are read again when
// they change. A key that everybody can read is refused.
func TLSConfig(cert, key string, logger *slog.Logger) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key, logger: logger}
	if err := c.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
		NextProtos:     []string{"h2", "http/1.1"},
	}, nil
}

// certificate is the certificate of a server, as its files have it.
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
