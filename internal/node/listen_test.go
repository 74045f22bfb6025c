package node

import (
	"testing"

	"reprise/internal/httpserver"
	"reprise/internal/oidc"
)

// TestIssuersThatAreRefused: what could not work is told at the start.
func TestIssuersThatAreRefused(t *testing.T) {
	front, err := listenFront(t.Context(), nil, "127.0.0.1:0", nil, &httpserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = front.close() }()
	const local = "127.0.0.1:0"
	issuer := oidc.Issuer{URL: "http://127.0.0.1:1"}
	open := func(o Options) (*oidc.Verifier, error) {
		n := &Node{Options: o, front: front}
		return n.openIssuers(&oidc.Options{Resource: &oidc.Resource{}})
	}
	for name, o := range map[string]Options{
		"plain HTTP":                   {Issuers: []oidc.Issuer{{URL: "http://login.example.org"}}, Listen: local},
		"the same twice":               {Issuers: []oidc.Issuer{issuer, issuer}, Listen: local},
		"an address of no client's":    {Issuers: []oidc.Issuer{issuer}, Listen: "0.0.0.0:0"},
		"a public URL with a path":     {Issuers: []oidc.Issuer{issuer}, PublicURL: "https://a.org/b", Listen: local},
		"no URL, and no issuer either": {PublicURL: "foo", Listen: local},
		"everybody is let in":          {Issuers: []oidc.Issuer{issuer}, Open: true, Listen: local},
	} {
		if v, err := open(o); err == nil {
			v.Close()
			t.Errorf("%s: taken", name)
		}
	}
	if v, err := open(Options{Open: true, Listen: local}); v != nil || err != nil {
		t.Errorf("without issuers: %v, %v", v, err)
	}
}
