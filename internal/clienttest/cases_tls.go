package clienttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"reprise/internal/cutproxy"
)

// certificate is a certificate of the suite's own for 127.0.0.1, and the file that has it.
type certificate struct {
	tls.Certificate
	file string
}

// newCertificate writes a certificate to a file.
func newCertificate(file string) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "check-client"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return &certificate{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file}, nil
}

// environment makes the clients of most languages trust the certificate.
func (c *certificate) environment() []string {
	return []string{
		"SSL_CERT_FILE=" + c.file, "NODE_EXTRA_CA_CERTS=" + c.file, "REQUESTS_CA_BUNDLE=" + c.file,
	}
}

// goingAway is a proxy with TLS and HTTP/2 in front of the server. It breaks off some answers with RST_STREAM, and
// sends GOAWAY while others go on; over HTTP/1.1 it ends the connection.
func (r *run) goingAway() http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, FlushInterval: -1,
		ErrorLog: log.New(io.Discard, "", 0), // of what the client has left
		Rewrite:  func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: r.server.addr}) },
	}
	var answers atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := answers.Add(1)
		if n > 6 {
			proxy.ServeHTTP(w, req)
			return
		}
		r.cuts.Add(1)
		if n%2 == 0 {
			w.Header().Set("Connection", "close") // GOAWAY, with this stream still open
		}
		proxy.ServeHTTP(&shortWriter{ResponseWriter: w, left: 500 * n}, req)
	})
}

// shortWriter breaks an answer off after some bytes.
type shortWriter struct {
	http.ResponseWriter
	left int64
}

func (w *shortWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(int64(len(p)), w.left)])
	if w.left -= int64(n); w.left == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func (w *shortWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// overTLS follows through TLS, in HTTP/2 if the client has it: handshakes that stop and that are slow, connections that
// go away while a stream is open, and streams that are reset.
func overTLS(ctx context.Context, r *run) error {
	if err := r.server.publish(ctx, r.name, 1, 100, true); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: r.goingAway(), ReadHeaderTimeout: 30 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{r.server.certificate.Certificate}},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(listener, "", "")
	}()
	defer func() {
		_ = server.Close()
		<-done
	}()
	faults := []cutproxy.Fault{
		{Kind: cutproxy.Stall},
		{Kind: cutproxy.RST, After: 40},
		{Kind: cutproxy.Stall, After: 300},
		{Kind: cutproxy.Slow, Pace: 100 * time.Microsecond},
		{Kind: cutproxy.RST, After: 2500},
	}
	p, closeIt, err := r.proxy(listener.Addr().String(), func(n int) *cutproxy.Fault {
		if n >= len(faults) {
			return nil
		}
		return &faults[n]
	})
	if err != nil {
		return err
	}
	defer closeIt()
	t := r.follow(p.Addr(), r.name, func(c *Command) { c.URL, c.IdleMS = "https://"+p.Addr(), 3000 })
	if err := t.count(100); err != nil {
		return fmt.Errorf("after %d faults: %w", p.Faults(), err)
	}
	if err := r.server.publish(ctx, r.name, 101, 10, false); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	return r.exactly(t, want)
}
