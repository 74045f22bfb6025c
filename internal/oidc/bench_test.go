package oidc_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise"
	"reprise/internal/apikey"
	"reprise/internal/identity"
	"reprise/internal/oidc"
)

// BenchmarkIdentify is what it costs to know who sent a request, for each kind of credential. The token of the server
// is the limit that the others are compared with.
func BenchmarkIdentify(b *testing.B) {
	const token = "a-token-for-benchmarks-01"
	admin, err := identity.NewToken(token)
	ok(b, err)
	registry, err := apikey.Open(b.Context(), apikey.File(filepath.Join(b.TempDir(), "keys")), nil)
	ok(b, err)
	defer registry.Close()
	_, key, err := registry.Add(b.Context(), apikey.Request{Name: "a", Tenant: "acme", Scopes: grantsOf(b, "read")})
	ok(b, err)
	signers := []*signer{newRSA(b, "rsa", jose.RS256), newEC(b, "ec", jose.ES256), newEd(b, "ed")}
	p := newProvider(b, signers...)
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Hour})
	gate := identity.NewGate(reprise.NewKeys(), v.Before(identity.Verifiers{admin, registry}), nil)

	run := func(name, credential string, before func()) {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/v1/streams", nil)
			r.Header.Set("Authorization", "Bearer "+credential)
			if _, err := gate.Identify(r); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				before()
				if _, err := gate.Identify(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	nothing := func() {}
	run("credential=token", token, nothing)
	run("credential=key", key, nothing)
	for _, s := range signers {
		signed := s.sign(b, p.claims(nil), nil)
		run("credential=jwt/alg="+string(s.algorithm)+"/first", signed, v.Forget)
		run("credential=jwt/alg="+string(s.algorithm)+"/again", signed, nothing)
	}
}
