package identity

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Certificates says whom client certificates stand for.
type Certificates interface {
	// Certified returns the principal of the credential whose id a certificate names. The error wraps
	// ErrUnauthenticated.
	Certified(ctx context.Context, id string) (Principal, error)
}

// certifiedURI begins the URI in a certificate that names a credential by its id.
const certifiedURI = "reprise:key:"

// certificateOf is the client certificate of r that was verified, nil for none.
func certificateOf(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

// certified says for whom a verified certificate stands: the credential whose id is in its first URI that begins with
// certifiedURI, or else is the common name of its subject.
func (g *Gate) certified(ctx context.Context, c *x509.Certificate) (Principal, error) {
	if !time.Now().Before(c.NotAfter) { // the connection may be older
		return Principal{}, fmt.Errorf("%w: the client certificate has expired", ErrUnauthenticated)
	}
	id := c.Subject.CommonName
	for _, uri := range c.URIs {
		if named, ok := strings.CutPrefix(uri.String(), certifiedURI); ok {
			id = named
			break
		}
	}
	p, err := g.opts.Certificates.Certified(ctx, id)
	if err != nil {
		return Principal{}, err
	}
	p.Expires = earlier(c.NotAfter, p.Expires)
	return p, nil
}
