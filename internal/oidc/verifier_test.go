package oidc_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/oidc"
	"reprise/internal/quota"
)

func grantsOf(t testing.TB, texts ...string) (grants []identity.Grant) {
	t.Helper()
	for _, text := range texts {
		g, err := identity.ParseGrant(text)
		ok(t, err)
		grants = append(grants, g)
	}
	return grants
}

// TestClaimsBecomeAPrincipal walks the rule that docs/security.md states.
func TestClaimsBecomeAPrincipal(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	plain := oidc.Issuer{Name: "corp"}
	admins := oidc.Issuer{
		Name:   "corp",
		Scopes: grantsOf(t, "read"),
		Groups: map[string][]identity.Grant{"ops": grantsOf(t, "admin", "audit")},
		Allow:  []identity.Scope{"read", "admin", "audit"},
	}
	tenants := oidc.Issuer{Name: "corp", TenantClaim: "org", ScopeClaim: "permissions", ScopePrefix: "reprise:"}
	for _, tt := range []struct {
		name    string
		issuer  oidc.Issuer
		changes map[string]any
		who     string
		tenant  reprise.Tenant
		scopes  []string
	}{
		{"the defaults", plain, nil, "alice@corp", "default", []string{"read", "run:ci-"}},
		{
			"admin is not granted unless it is allowed", plain,
			map[string]any{"scope": "admin audit control"},
			"alice@corp", "default",
			[]string{"control"},
		},
		{
			"scp as an array", plain,
			map[string]any{"scope": nil, "scp": []string{"read", "publish:a/"}},
			"alice@corp", "default",
			[]string{"read", "publish:a/"},
		},
		{
			"scope and not scp", plain,
			map[string]any{"scp": "run"},
			"alice@corp", "default",
			[]string{"read", "run:ci-"},
		},
		{"no scopes", plain, map[string]any{"scope": nil}, "alice@corp", "default", nil},
		{
			"scopes for all, and of groups", admins,
			map[string]any{"groups": []string{"dev", "ops"}},
			"alice@corp",
			"default",
			[]string{"read", "admin", "audit"},
		},
		{
			"groups of one", admins,
			map[string]any{"groups": "ops", "scope": nil},
			"alice@corp", "default",
			[]string{"read", "admin", "audit"},
		},
		{
			"a claim for tenants, and a prefix", tenants,
			map[string]any{"org": "acme", "permissions": "reprise:read run"},
			"alice@corp", "acme",
			[]string{"read"},
		},
		{"no tenant", tenants, nil, "", "", nil},
		{"the default tenant by a claim", tenants, map[string]any{"org": "default"}, "", "", nil},
		{"a tenant of the server", tenants, map[string]any{"org": "reprise.system"}, "", "", nil},
		{"a tenant that is none", tenants, map[string]any{"org": "a/b"}, "", "", nil},
		{
			"a name by a claim",
			oidc.Issuer{Name: "corp", NameClaim: "email"},
			map[string]any{"email": "a@b.org"},
			"a@b.org@corp", "default",
			[]string{"read", "run:ci-"},
		},
		{"no name", plain, map[string]any{"sub": nil}, "", "", nil},
		{"a name with a space", plain, map[string]any{"sub": "a b"}, "", "", nil},
		{"a name that is too long", plain, map[string]any{"sub": strings.Repeat("a", 121)}, "", "", nil},
		{
			"claims know case", plain,
			map[string]any{"Sub": "root", "SCOPE": "control"},
			"alice@corp", "default",
			[]string{"read", "run:ci-"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := p.verifier(tt.issuer, oidc.Options{})
			who, err := v.Verify(t.Context(), key.sign(t, p.claims(tt.changes), nil))
			if tt.who == "" {
				if !errors.Is(err, identity.ErrUnauthenticated) || isGuess(err) {
					t.Fatalf("let in as %v, error %v", who, err)
				}
				return
			}
			ok(t, err)
			if who.Name != tt.who || who.Tenant != tt.tenant || !slices.Equal(who.Grants, grantsOf(t, tt.scopes...)) ||
				who.Issuer != p.url {
				t.Errorf("%+v", who)
			}
		})
	}
}

// TestEveryAlgorithmOfTheListIsVerified signs with each.
func TestEveryAlgorithmOfTheListIsVerified(t *testing.T) {
	rsa := newRSA(t, "rsa", "").private
	var keys []*signer
	for _, a := range []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	} {
		keys = append(keys, &signer{string(a), a, rsa})
	}
	keys = append(keys, newEC(t, "e256", jose.ES256), newEC(t, "e384", jose.ES384), newEC(t, "e512", jose.ES512),
		newEd(t, "ed"))
	p := newProvider(t, keys...)
	v := p.verifier(oidc.Issuer{}, oidc.Options{})
	for _, key := range keys {
		who, err := v.Verify(t.Context(), key.sign(t, p.claims(nil), nil))
		if err != nil || !strings.HasPrefix(who.Name, "alice@127.0.0.1:") {
			t.Errorf("%s: %v, %v", key.algorithm, who.Name, err)
		}
	}
}

// TestBadTokensAreRefused: a token that anybody can have made counts as a guess, one that its issuer has signed does
// not.
func TestBadTokensAreRefused(t *testing.T) {
	key, stranger := newRSA(t, "k1", jose.RS256), newRSA(t, "k1", jose.RS256)
	ec := newEC(t, "ec", jose.ES256)
	p := newProvider(t, key, ec)
	other := newProvider(t, stranger)
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Hour})
	good := key.sign(t, p.claims(nil), nil)
	if _, err := v.Verify(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	nameless := &signer{"", jose.RS256, stranger.private}
	signed := func(changes map[string]any) string { return key.sign(t, p.claims(changes), nil) }
	headed := func(name jose.HeaderKey, value any) string {
		return stranger.sign(t, p.claims(nil), map[jose.HeaderKey]any{name: value})
	}
	for name, tt := range map[string]struct {
		token string
		guess bool
	}{
		"signed by a stranger under the id of a key": {stranger.sign(t, p.claims(nil), nil), true},
		"an id of a key that is not there": {
			(&signer{"k9", jose.RS256, key.private}).sign(t, p.claims(nil), nil), true,
		},
		"an id of a key that is a path": {
			(&signer{"../../etc/passwd", jose.RS256, stranger.private}).sign(t, p.claims(nil), nil), true,
		},
		"an id of a key that is SQL": {
			(&signer{"k1' OR 1=1 --", jose.RS256, stranger.private}).sign(t, p.claims(nil), nil), true,
		},
		"the id of a key of another kind": {
			(&signer{"ec", jose.RS256, key.private}).sign(t, p.claims(nil), nil), true,
		},
		"an algorithm for which the key is not": {
			(&signer{"k1", jose.RS512, key.private}).sign(t, p.claims(nil), nil), true,
		},
		"without the id of a key":             {nameless.sign(t, p.claims(nil), nil), true},
		"a key in the header":                 {headed("jwk", stranger.public()), true},
		"the URL of keys in the header":       {headed("jku", other.url+"/keys"), true},
		"the algorithm none":                  {unsigned(t, p.claims(nil), "none", ""), true},
		"the algorithm None":                  {unsigned(t, p.claims(nil), "None", ""), true},
		"HS256 with the public key as secret": {withPublicKey(t, key, p.claims(nil)), true},
		"another issuer":                      {stranger.sign(t, other.claims(nil), nil), true},
		"without an issuer":                   {signed(map[string]any{"iss": nil}), true},
		"a payload that was changed":          {changed(good), true},
		"a signature that was cut off":        {good[:len(good)-5], true},
		"no signature":                        {good[:strings.LastIndexByte(good, '.')+1], true},
		"a payload that is no object":         {key.sign(t, []string{"read"}, nil), true},
		"too long":                            {signed(map[string]any{"x": strings.Repeat("x", 17<<10)}), true},
		"a logout token": {
			key.sign(t, p.claims(nil), map[jose.HeaderKey]any{"typ": "logout+jwt"}), true,
		},
		"an extension that must be understood": {
			key.sign(t, p.claims(nil), map[jose.HeaderKey]any{"crit": []string{"x"}, "x": 1}), true,
		},
		"expired":                         {signed(map[string]any{"exp": now - 31}), false},
		"without an expiry":               {signed(map[string]any{"exp": nil}), false},
		"an expiry that is text":          {signed(map[string]any{"exp": "tomorrow"}), false},
		"an expiry beyond all time":       {signed(map[string]any{"exp": 1e300}), false},
		"not yet good":                    {signed(map[string]any{"nbf": now + 60}), false},
		"issued in the future":            {signed(map[string]any{"iat": now + 60}), false},
		"another audience":                {signed(map[string]any{"aud": "https://other.example.org"}), false},
		"an audience that begins as ours": {signed(map[string]any{"aud": resourceURL + ".evil.org"}), false},
		"a path that is no resource":      {signed(map[string]any{"aud": resourceURL + "/v1"}), false},
		"without an audience":             {signed(map[string]any{"aud": nil}), false},
		"an empty audience":               {signed(map[string]any{"aud": ""}), false},
		"audiences that are numbers":      {signed(map[string]any{"aud": []int{1}}), false},
		"bound to a key of its sender":    {signed(map[string]any{"cnf": map[string]string{"jkt": "x"}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := v.Verify(t.Context(), tt.token)
			if !errors.Is(err, identity.ErrUnauthenticated) || isGuess(err) != tt.guess {
				t.Errorf("let in as %+v, error %v", who, err)
			}
		})
	}
	if other.fetched() != 0 {
		t.Error("keys were fetched from where a token has said")
	}
}

// unsigned is a token with a header that names an algorithm, and a signature of the sender's choice.
func unsigned(t *testing.T, payload any, algorithm, signature string) string {
	t.Helper()
	header, err := json.Marshal(map[string]string{"alg": algorithm, "kid": "k1"})
	ok(t, err)
	body, err := json.Marshal(payload)
	ok(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	return encode(header) + "." + encode(body) + "." + signature
}

// withPublicKey is a token signed by HS256 with what everybody knows of an RSA key.
func withPublicKey(t *testing.T, key *signer, payload any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.private.Public())
	ok(t, err)
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	signs := jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: key.id}}
	with, err := jose.NewSigner(signs, nil)
	ok(t, err)
	text, err := json.Marshal(payload)
	ok(t, err)
	signed, err := with.Sign(text)
	ok(t, err)
	token, err := signed.CompactSerialize()
	ok(t, err)
	return token
}

// changed is a token whose payload grants more than was signed.
func changed(token string) string {
	parts := strings.Split(token, ".")
	body, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(body), "alice", "admin", 1)))
	return strings.Join(parts, ".")
}

// TestClocksMayDifferByTheLeeway: 30 seconds, and the principal ends as late.
func TestClocksMayDifferByTheLeeway(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	v := p.verifier(oidc.Issuer{}, oidc.Options{})
	now := time.Now().Unix()
	for _, changes := range []map[string]any{
		{"exp": now - 10}, {"nbf": now + 20}, {"iat": now + 20}, {"exp": float64(now) + 0.5},
	} {
		who, err := v.Verify(t.Context(), key.sign(t, p.claims(changes), nil))
		if err != nil {
			t.Errorf("%v: %v", changes, err)
		} else if exp, is := changes["exp"].(int64); is && !who.Expires.Equal(time.Unix(exp+30, 0)) {
			t.Errorf("%v: good until %v", changes, who.Expires)
		}
	}
}

// TestAudienceBindsToAPath: a token for a part of the server is good for that alone.
func TestAudienceBindsToAPath(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	v := p.verifier(oidc.Issuer{Audiences: []string{"api"}}, oidc.Options{})
	for _, tt := range []struct {
		audience any
		paths    []string
	}{
		{resourceURL, nil},
		{resourceURL + "/", nil},
		{"api", nil},
		{resourceURL + "/mcp", []string{"/mcp"}},
		{[]string{"else", resourceURL + "/mcp/"}, []string{"/mcp"}},
		{[]string{resourceURL + "/mcp", "api"}, nil},
	} {
		who, err := v.Verify(t.Context(), key.sign(t, p.claims(map[string]any{"aud": tt.audience}), nil))
		ok(t, err)
		if !slices.Equal(who.Paths, tt.paths) || (who.Paths == nil) != (tt.paths == nil) {
			t.Errorf("%v: %v, want %v", tt.audience, who.Paths, tt.paths)
		}
	}
}

// TestOtherCredentialsAreAskedOfTheNext: also one that looks like a token and is none.
func TestOtherCredentialsAreAskedOfTheNext(t *testing.T) {
	const looksAlike = "eyJhbGciOiJub25lIn0.eyJhbGciOiJub25lIn0.x"
	p := newProvider(t, newEd(t, "k1"))
	for _, text := range []string{"a-token-of-the-server", looksAlike} {
		token, err := identity.NewToken(text)
		ok(t, err)
		v := p.verifier(oidc.Issuer{}, oidc.Options{}).Before(token)
		who, err := v.Verify(t.Context(), text)
		ok(t, err)
		if again, err := v.Current(t.Context(), who.Credential); err != nil || again.Name != "token" {
			t.Errorf("%v, %v", again, err)
		}
		if named, err := v.Named(t.Context(), who.Tenant, who.Name); err != nil || named.Name != "token" {
			t.Errorf("%v, %v", named, err)
		}
		if _, err := v.Verify(t.Context(), "not-"+text); !isGuess(err) {
			t.Errorf("another credential: %v", err)
		}
	}
}

// TestPrincipalsOfIssuersAreNotKnownByName: what one may do is in its token alone.
func TestPrincipalsOfIssuersAreNotKnownByName(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	v := p.verifier(oidc.Issuer{}, oidc.Options{})
	who, err := v.Verify(t.Context(), key.sign(t, p.claims(nil), nil))
	ok(t, err)
	if named, err := v.Named(t.Context(), who.Tenant, who.Name); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("%+v, %v", named, err)
	}
}

// FuzzVerify: no text is a token but what the issuer has signed, and none panics. The same signature has several texts
// in base64.
func FuzzVerify(f *testing.F) {
	key := newEd(f, "k1")
	p := newProvider(f, key)
	v := p.verifier(oidc.Issuer{Name: "corp"}, oidc.Options{RefetchEvery: time.Hour})
	good := key.sign(f, p.claims(nil), nil)
	f.Add(good[strings.IndexByte(good, '.'):])
	f.Add(".e30.")
	f.Add(`.{"iss":""}.x`)
	header := good[:strings.IndexByte(good, '.')]
	f.Fuzz(func(t *testing.T, rest string) {
		who, err := v.Verify(t.Context(), header+rest)
		if err == nil && (who.Name != "alice@corp" || who.Tenant != reprise.DefaultTenant) {
			t.Errorf("%q is let in as %+v", rest, who)
		}
		if err != nil && !errors.Is(err, identity.ErrUnauthenticated) && !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("%q: %v", rest, err)
		}
	})
}

// TestLimitsComeFromClaims: quota by quota the claim wins over the issuer's, and one that cannot be read lets nobody in.
func TestLimitsComeFromClaims(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	rule := oidc.Issuer{Limits: quota.Limits{quota.Running: 2, quota.Starts: 60}, LimitsClaim: "limits"}
	claimed := map[string]any{"running": 8, "bytes": 1 << 40}
	for _, tt := range []struct {
		name   string
		issuer oidc.Issuer
		claim  any
		want   string // "refused" for nobody
	}{
		{"no rule", oidc.Issuer{}, claimed, ""},
		{"a claim that no rule names", oidc.Issuer{Limits: rule.Limits}, claimed, "running=2 starts=60"},
		{"no claim", rule, nil, "running=2 starts=60"},
		{"a claim", rule, claimed, "running=8 starts=60 bytes=1099511627776"},
		{"a claim alone", oidc.Issuer{LimitsClaim: "limits"}, claimed, "running=8 bytes=1099511627776"},
		{"0 allows nothing", rule, map[string]any{"starts": 0}, "running=2 starts=0"},
		{"an unknown quota", rule, map[string]any{"walking": 1}, "refused"},
		{"a negative bound", rule, map[string]any{"running": -1}, "refused"},
		{"a part", rule, map[string]any{"running": 1.5}, "refused"},
		{"a text", rule, "running=8", "refused"},
		{"null", rule, json.RawMessage("null"), "refused"},
		{"more than can be counted", rule, map[string]any{"running": 1e30}, "refused"},
	} {
		v := p.verifier(tt.issuer, oidc.Options{})
		who, err := v.Verify(t.Context(), key.sign(t, p.claims(map[string]any{"limits": tt.claim}), nil))
		if tt.want == "refused" {
			if !errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("%s: let in with %v, %v", tt.name, who.Limits, err)
			}
			continue
		}
		if err != nil || who.Limits.String() != tt.want {
			t.Errorf("%s: %q and not %q, %v", tt.name, who.Limits, tt.want, err)
		}
		again, err := v.Current(t.Context(), who.Credential)
		if err != nil || again.Limits.String() != tt.want {
			t.Errorf("%s, by a cookie: %q and not %q, %v", tt.name, again.Limits, tt.want, err)
		}
	}
	_, err := oidc.New([]oidc.Issuer{{URL: p.url, Limits: quota.Limits{"walking": 1}}}, nil)
	if !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("a rule with an unknown quota: %v", err)
	}
}

// TestClaimsThatAreAskedFor: those alone are kept, where they are text or whole numbers.
func TestClaimsThatAreAskedFor(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	v := p.verifier(oidc.Issuer{}, oidc.Options{Claims: []string{"email", "uid", "groups", "half", "none", "yes"}})
	token := key.sign(t, p.claims(map[string]any{
		"email": "a@b.org", "uid": 1042, "groups": []string{"x"}, "half": 0.5, "yes": true, "other": "o", "Email": "E",
	}), nil)
	for range 2 { // the second time it is known
		who, err := v.Verify(t.Context(), token)
		ok(t, err)
		if want := map[string]string{"email": "a@b.org", "uid": "1042"}; !maps.Equal(who.Claims, want) {
			t.Errorf("%v and not %v", who.Claims, want)
		}
	}
}
