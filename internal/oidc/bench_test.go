package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise"
	"reprise/internal/apikey"
	"reprise/internal/identity"
	"reprise/internal/journal"
	"reprise/internal/oidc"
)

// BenchmarkIdentify is what it costs to know who sent a request, for each kind of credential. The token of the server
// is the limit that the others are compared with.
func BenchmarkIdentify(b *testing.B) {
	const token = "a-token-for-benchmarks-01"
	admin, err := identity.NewToken(token)
	ok(b, err)
	registry, err := apikey.Open(b.Context(), journal.File(filepath.Join(b.TempDir(), "keys")), nil)
	ok(b, err)
	defer registry.Close()
	_, key, err := registry.Add(b.Context(), apikey.Request{Name: "a", Tenant: "acme", Scopes: grantsOf(b, "read")})
	ok(b, err)
	signers := []*signer{newRSA(b, "rsa", jose.RS256), newEC(b, "ec", jose.ES256), newEd(b, "ed")}
	p := newProvider(b, signers...)
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Hour})
	gate := identity.NewGate(reprise.NewKeyset(), v.Before(identity.Verifiers{admin, registry}), nil)

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

// BenchmarkSignature is the check of a signature by the standard library alone, which the first request with a token
// cannot cost less than.
func BenchmarkSignature(b *testing.B) {
	const input = "the protected header and the payload of a token, which are signed"
	digest := sha256.Sum256([]byte(input))
	for _, s := range []*signer{newRSA(b, "rsa", jose.RS256), newEC(b, "ec", jose.ES256), newEd(b, "ed")} {
		message, hash := digest[:], crypto.Hash(crypto.SHA256)
		if s.algorithm == jose.EdDSA {
			message, hash = []byte(input), crypto.Hash(0)
		}
		signature, err := s.private.Sign(rand.Reader, message, hash)
		ok(b, err)
		check := func() bool {
			switch public := s.private.Public().(type) {
			case *rsa.PublicKey:
				return rsa.VerifyPKCS1v15(public, hash, message, signature) == nil
			case *ecdsa.PublicKey:
				return ecdsa.VerifyASN1(public, message, signature)
			case ed25519.PublicKey:
				return ed25519.Verify(public, message, signature)
			}
			return false
		}
		b.Run("alg="+string(s.algorithm), func(b *testing.B) {
			for b.Loop() {
				if !check() {
					b.Fatal("the signature is wrong")
				}
			}
		})
	}
}
