package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Limits of a provider's documents.
const (
	maxDocument = 512 << 10 // bytes of a document
	maxKeys     = 100       // of a set
)

// newHTTPClient returns a client that follows no redirects: keys are fetched only from the URL that the operator or the
// issuer's document names.
func newHTTPClient() *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		MaxIdleConns: 2, IdleConnTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// discoveryPath is appended to the URL of an issuer (OpenID Connect Discovery 1.0, section 4).
const discoveryPath = "/.well-known/openid-configuration"

// fetchKeys fetches the keys of an issuer from the URL that it publishes.
func (i *Issuer) fetchKeys(ctx context.Context, client *http.Client) ([]*key, error) {
	from := i.JWKS
	if from == "" {
		found, err := i.discover(ctx, client)
		if err != nil {
			return nil, err
		}
		if err := checkURL(found.JWKS); err != nil {
			return nil, fmt.Errorf("%s: jwks_uri: %w", i.URL, err)
		}
		from = found.JWKS
	}
	text, err := get(ctx, client, from)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return keys, nil
}

// document is what an issuer publishes about itself.
type document struct {
	Issuer        string `json:"issuer"`
	JWKS          string `json:"jwks_uri"`
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
}

// endpoint parses a URL of the document.
func (d *document) endpoint(text string) (*url.URL, error) {
	if err := checkURL(text); err != nil {
		return nil, fmt.Errorf("%s: an endpoint of logins: %w", d.Issuer, err)
	}
	return url.Parse(text)
}

// discover fetches the document of the issuer.
func (i *Issuer) discover(ctx context.Context, client *http.Client) (*document, error) {
	from := strings.TrimSuffix(i.URL, "/") + discoveryPath
	text, err := get(ctx, client, from)
	if err != nil {
		return nil, err
	}
	var found document
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if found.Issuer != i.URL {
		return nil, fmt.Errorf("%s is the document of the issuer %.200q", from, found.Issuer)
	}
	return &found, nil
}

// get fetches a document.
func get(ctx context.Context, client *http.Client, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	res, err := client.Do(req)
	if err != nil {
		return nil, fetchError(ctx, from, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with the status %d", from, res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err != nil {
		return nil, fetchError(ctx, from, err)
	}
	if len(text) > maxDocument {
		return nil, fmt.Errorf("%s sends more than %d bytes", from, maxDocument)
	}
	return text, nil
}

func fetchError(ctx context.Context, from string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", from, err)
}

// parseKeys parses a JWK set. Keys for other uses and malformed keys are ignored (RFC 7517, section 5).
func parseKeys(text []byte) ([]*key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("a set of %d keys, at most %d are taken", len(set.Keys), maxKeys)
	}
	var keys []*key
	for _, raw := range set.Keys {
		var jwk jose.JSONWebKey
		if jwk.UnmarshalJSON(raw) != nil {
			continue
		}
		k, ok := newKey(&jwk)
		if ok && !slices.ContainsFunc(keys, func(other *key) bool { return other.thumbprint == k.thumbprint }) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the set contains no key that can sign tokens")
	}
	return keys, nil
}

// algorithms are the accepted signature algorithms (RFC 7518, section 3.1, and RFC 8037). All are asymmetric: with a
// symmetric one, whoever knows a public key could sign.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// The accepted sizes of RSA keys, in bits. Longer keys are slow to verify with.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// isAccepted reports whether a key is a public key of a kind that signs tokens.
func isAccepted(public any) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits && k.N.BitLen() <= maxRSABits
	case *ecdsa.PublicKey:
		return curveOf[k.Curve.Params().BitSize] != ""
	case ed25519.PublicKey:
		return true
	}
	return false
}

// curveOf maps the size of a curve to its algorithm (RFC 7518, section 3.4).
var curveOf = map[int]jose.SignatureAlgorithm{256: jose.ES256, 384: jose.ES384, 521: jose.ES512}

// suits reports whether a key has the kind that an algorithm requires.
func suits(public any, algorithm string) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return string(curveOf[k.Curve.Params().BitSize]) == algorithm
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}
