package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise/internal/testserver"
)

// writeCertificate writes a self-signed certificate of 127.0.0.1 and its key, under a name.
func writeCertificate(t *testing.T, name, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: encoded},
	} {
		text := pem.EncodeToMemory(block)
		err = errors.Join(err, os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// servedAs is the name in the certificate that a server shows.
func servedAs(t *testing.T, addr string) string {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // whatever it shows
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestServeOverTLS: clients that trust the certificate are served, with a cookie of this host alone; a new
// certificate is taken without a restart, and one that is broken leaves the old one in use.
func TestServeOverTLS(t *testing.T) {
	t.Parallel()
	dir := testserver.TempDir(t)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, "first", cert, key)
	log := filepath.Join(dir, "log")
	d, err := startDaemon(append(os.Environ(), "HOME="+dir), dir, log,
		"--listen", "127.0.0.1:0", "--data", dir+"/data", "--tls-cert", cert, "--tls-key", key)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.kill() }()
	trusted, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	token, err := os.ReadFile(dir + "/data/token")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+d.addr+"/v1/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	cookie := res.Header.Get("Set-Cookie")
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(cookie, "__Host-reprise_login=") ||
		!strings.Contains(cookie, "Secure") {
		t.Errorf("status %d, cookie %q", res.StatusCode, cookie)
	}
	plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.addr+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := transport.RoundTrip(plain); err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: status %d", res.StatusCode)
		}
	}
	writeCertificate(t, "second", cert, key)
	if !eventually(func() bool { return servedAs(t, d.addr) == "second" }) {
		t.Error("the new certificate is not served")
	}
	if err := os.WriteFile(cert, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	told := func() bool {
		text, err := os.ReadFile(log)
		return err == nil && servedAs(t, d.addr) == "second" && strings.Contains(string(text), "cannot be used")
	}
	if !eventually(told) {
		t.Error("nobody is told of a certificate that cannot be used")
	}
}

func TestCertificatesThatAreRefused(t *testing.T) {
	dir := testserver.TempDir(t)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, "first", cert, key)
	if c, err := (&tlsFlags{TLSCert: cert, TLSKey: key}).tlsConfig(nil); err != nil || c == nil {
		t.Fatalf("%v", err)
	}
	for what, f := range map[string]tlsFlags{
		"no key": {TLSCert: cert}, "no certificate": {TLSKey: key}, "no file": {TLSCert: cert, TLSKey: dir + "/none"},
		"no certificate in the file":        {TLSCert: key, TLSKey: key},
		"authorities without a certificate": {TLSClientCA: cert},
		"no file of authorities":            {TLSCert: cert, TLSKey: key, TLSClientCA: dir + "/none"},
		"no authority in the file":          {TLSCert: cert, TLSKey: key, TLSClientCA: key},
	} {
		if _, err := f.tlsConfig(nil); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	if err := os.Chmod(key, 0o604); err != nil {
		t.Fatal(err)
	}
	if _, err := (&tlsFlags{TLSCert: cert, TLSKey: key}).tlsConfig(nil); err == nil {
		t.Error("a key that everybody can read is taken")
	}
	if c, err := (&tlsFlags{}).tlsConfig(nil); err != nil || c != nil {
		t.Errorf("without flags: %v, %v", c, err)
	}
}
