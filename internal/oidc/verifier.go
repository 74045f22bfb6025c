package oidc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise"
	"reprise/internal/identity"
)

// Options are the settings of a Verifier. The zero value of each field means its default.
type Options struct {
	// Resource is the audience of the tokens. Default: the audiences of the Issuers.
	Resource *Resource
	// Leeway is the tolerated difference between the clocks of an issuer and this server. Default: 30 s.
	Leeway time.Duration
	// RefetchEvery is the shortest time between two fetches of an issuer's keys. RefreshEvery is the time after which
	// they are fetched again although all keys are known. Defaults: 5 s, 15 min.
	RefetchEvery, RefreshEvery time.Duration
	// FetchTimeout bounds one fetch. Default: 5 s.
	FetchTimeout time.Duration
	// MaxCached bounds the verified tokens that are cached. Default: 10,000.
	MaxCached int
	// Claims lists the claims of a token, if they are strings or whole numbers, that Principal.Claims contains. Cookies
	// do not carry them. Default: none.
	Claims []string
	// Logger receives errors. Default: silent.
	Logger *slog.Logger

	life context.Context // until Close
	work *work
}

// work tracks background goroutines until Close.
type work struct {
	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

// begin runs f in a goroutine that Close waits for. It returns false after Close.
func (w *work) begin(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.tasks.Go(f)
	}
	return !w.closed
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Leeway = cmp.Or(d.Leeway, 30*time.Second)
	d.RefetchEvery = cmp.Or(d.RefetchEvery, 5*time.Second)
	d.RefreshEvery = cmp.Or(d.RefreshEvery, 15*time.Minute)
	d.FetchTimeout = cmp.Or(d.FetchTimeout, 5*time.Second)
	d.MaxCached = cmp.Or(d.MaxCached, 10_000)
	if d.Resource == nil {
		d.Resource = &Resource{}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Verifier verifies the tokens of one or several issuers. It is safe for concurrent use.
type Verifier struct {
	issuers map[string]*issuer // by Issuer.URL
	opts    Options
	next    identity.Verifier // for other credentials

	stop   context.CancelFunc
	cache  *cache
	client *http.Client
	flows  chan struct{} // holds a place for each login that waits for a provider
}

// issuer is an Issuer and its keys.
type issuer struct {
	Issuer
	keys *keySet

	mu    sync.Mutex
	found *document
	at    time.Time // when it was found
}

// maxDocumentAge is how long the document of an issuer is used for logins, which anybody can begin.
const maxDocumentAge = 5 * time.Minute

// document returns the document of the issuer, which it fetches every few minutes at most.
func (i *issuer) document(ctx context.Context, client *http.Client) (*document, error) {
	i.mu.Lock()
	found, at := i.found, i.at
	i.mu.Unlock()
	if found != nil && time.Since(at) < maxDocumentAge {
		return found, nil
	}
	found, err := i.discover(ctx, client)
	if err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.found, i.at = found, time.Now()
	}
	return found, err
}

var _ identity.Verifier = (*Verifier)(nil)

// New returns a Verifier that starts to fetch the keys of the issuers. It must be closed. The error wraps
// reprise.ErrInvalid for invalid issuers. opts may be nil.
func New(issuers []Issuer, opts *Options) (*Verifier, error) {
	v := &Verifier{issuers: map[string]*issuer{}, opts: opts.withDefaults(), next: nobody{}}
	v.cache = &cache{most: v.opts.MaxCached, tokens: map[digest]identity.Principal{}}
	v.opts.life, v.stop = context.WithCancel(context.Background())
	v.opts.work = &work{}
	v.client, v.flows = newHTTPClient(), make(chan struct{}, maxFlows)
	names := map[string]bool{}
	for _, one := range issuers {
		one, err := one.withDefaults()
		if err != nil {
			return nil, err
		}
		if v.issuers[one.URL] != nil || names[one.Name] {
			return nil, fmt.Errorf("%w: there are two issuers %q, or two of its name", reprise.ErrInvalid, one.URL)
		}
		names[one.Name] = true
		i := &issuer{Issuer: one}
		fetch := func(ctx context.Context) ([]*key, error) { return i.fetchKeys(ctx, v.client) }
		i.keys = &keySet{opts: &v.opts, fetch: fetch}
		v.issuers[one.URL] = i
	}
	for _, i := range v.issuers {
		v.opts.work.begin(i.keys.refresh)
	}
	v.opts.work.begin(func() {
		<-v.opts.life.Done()
		v.client.CloseIdleConnections()
	})
	return v, nil
}

// Close stops fetching keys. Tokens with known keys are still verified. Closing again, or closing a nil Verifier, does
// nothing.
func (v *Verifier) Close() {
	if v == nil {
		return
	}
	v.stop()
	v.opts.work.mu.Lock()
	v.opts.work.closed = true
	v.opts.work.mu.Unlock()
	v.opts.work.tasks.Wait()
}

// Before returns a Verifier that passes credentials that are not tokens of v's issuers to next. It is valid as long as
// v.
func (v *Verifier) Before(next identity.Verifier) identity.Verifier {
	both := *v
	both.next = next
	return &both
}

// nobody refuses every credential.
type nobody struct{}

func (nobody) Verify(context.Context, string) (identity.Principal, error) {
	return identity.Principal{}, &identity.GuessError{Reason: "the credential is no token of an issuer"}
}

func (nobody) Current(context.Context, string) (identity.Principal, error) {
	return identity.Principal{}, identity.ErrRevoked
}

func (nobody) Named(context.Context, reprise.Tenant, string) (identity.Principal, error) {
	return identity.Principal{}, identity.ErrRevoked
}

// maxToken bounds the text of a token, in bytes.
const maxToken = 16 << 10

// isToken reports whether a credential has the form of a signed token: three parts, the first of which is an object.
func isToken(credential string) bool {
	return strings.HasPrefix(credential, "eyJ") && strings.Count(credential, ".") == 2
}

// Verify implements identity.Verifier. A verified token is cached by its digest until it expires or its key is
// withdrawn.
func (v *Verifier) Verify(ctx context.Context, credential string) (identity.Principal, error) {
	if !isToken(credential) {
		return v.next.Verify(ctx, credential)
	}
	sum := sha256.Sum256([]byte(credential))
	if p, ok := v.cache.known(sum, time.Now()); ok {
		return p, nil
	}
	p, err := v.verify(ctx, credential)
	if err != nil {
		if other, otherErr := v.next.Verify(ctx, credential); otherErr == nil {
			return other, nil // another kind of token in the same form
		}
		return identity.Principal{}, err
	}
	v.cache.add(sum, p, time.Now())
	return p, nil
}

// wrong returns the error for a token that anybody could have made.
func wrong(reason string) error { return &identity.GuessError{Reason: reason} }

// types are the accepted values of the header typ (RFC 9068, section 2.1), and "" for none. Other values, such as
// "logout+jwt", mean that it is not an access token.
var types = []string{"", "jwt", "at+jwt", "application/at+jwt", "application/jwt"}

// verify verifies the signature of a token and then its claims.
func (v *Verifier) verify(ctx context.Context, token string) (identity.Principal, error) {
	i, k, c, err := v.signed(ctx, token)
	if err != nil {
		return identity.Principal{}, err
	}
	return v.admit(i, k, c)
}

// signed returns the claims of a token, and the issuer and the key that have signed it.
func (v *Verifier) signed(ctx context.Context, token string) (*issuer, *key, claims, error) {
	fail := func(err error) (*issuer, *key, claims, error) { return nil, nil, nil, err }
	if len(token) > maxToken {
		return fail(wrong("the token is too long"))
	}
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(jws.Signatures) != 1 {
		return fail(wrong("the token cannot be read, or is signed by an algorithm that is not taken"))
	}
	header := jws.Signatures[0].Protected
	typ, _ := header.ExtraHeaders[jose.HeaderType].(string)
	if !slices.Contains(types, strings.ToLower(typ)) {
		return fail(wrong("the token is no access token, by its header typ"))
	}
	var c claims
	if err := json.Unmarshal(jws.UnsafePayloadWithoutVerification(), &c); err != nil {
		return fail(wrong("the claims of the token cannot be read"))
	}
	i := v.issuers[c.text("iss")]
	if i == nil {
		return fail(wrong("the issuer of the token is not known here"))
	}
	keys, err := i.keys.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return fail(err)
	}
	for _, k := range keys {
		if _, err := jws.Verify(k.public); err == nil {
			return i, k, c, nil
		}
	}
	return fail(wrong("the signature of the token is wrong"))
}

// admit checks the claims of a token whose signature is valid.
func (v *Verifier) admit(i *issuer, k *key, c claims) (identity.Principal, error) {
	if _, bound := c["cnf"]; bound {
		return identity.Principal{}, refused("is bound to a key of its sender, which is not checked here: it is no bearer token")
	}
	paths, ok := v.opts.Resource.paths(c.list("aud", false), i.Audiences)
	if !ok {
		return identity.Principal{}, refused("is for another audience")
	}
	p, err := v.describe(i, k, c)
	p.Paths, p.Claims = paths, c.texts(v.opts.Claims)
	return p, err
}

// describe returns the principal that the claims currently stand for.
func (v *Verifier) describe(i *issuer, k *key, c claims) (identity.Principal, error) {
	if k.good.Err() != nil {
		return identity.Principal{}, identity.ErrRevoked
	}
	expires, err := c.during(time.Now(), v.opts.Leeway)
	if err != nil {
		return identity.Principal{}, err
	}
	p, err := i.principal(c)
	if err != nil {
		return identity.Principal{}, err
	}
	text, err := json.Marshal(credential{Issuer: i.URL, Key: k.thumbprint, Claims: i.ruled(c)})
	if err != nil {
		return identity.Principal{}, err
	}
	p.Expires, p.Revoked, p.Credential = expires, k.good, credentialPrefix+string(text)
	return p, nil
}

// credential identifies a token in cookies and tickets by its relevant claims, so that every replica can evaluate it
// without storing it. The signature of the cookie vouches for them. It has no other use.
type credential struct {
	Issuer string `json:"iss"`
	Key    string `json:"key"`
	Claims claims `json:"claims"`
}

// credentialPrefix distinguishes the names of tokens from those of other credentials.
const credentialPrefix = "jwt "

// Current implements identity.Verifier with the current rule, keys and time.
func (v *Verifier) Current(ctx context.Context, name string) (identity.Principal, error) {
	text, ok := strings.CutPrefix(name, credentialPrefix)
	if !ok {
		return v.next.Current(ctx, name)
	}
	var named credential
	if json.Unmarshal([]byte(text), &named) != nil {
		return identity.Principal{}, identity.ErrRevoked
	}
	i := v.issuers[named.Issuer]
	if i == nil {
		return identity.Principal{}, identity.ErrRevoked
	}
	k := i.keys.named(named.Key)
	if k == nil {
		return identity.Principal{}, i.unknown()
	}
	return v.describe(i, k, named.Claims)
}

// unknown returns the error for a key that is in no set: withdrawn, or not yet fetched after a start.
func (i *issuer) unknown() error {
	i.keys.mu.Lock()
	defer i.keys.mu.Unlock()
	if i.keys.fetched {
		return identity.ErrRevoked
	}
	return fmt.Errorf("%w: the keys of an issuer are not fetched yet", reprise.ErrUnavailable)
}

// Named implements identity.Verifier. The permissions of an issuer's principal are only in its token, and two tokens of
// one principal may differ.
func (v *Verifier) Named(ctx context.Context, tenant reprise.Tenant, name string) (identity.Principal, error) {
	return v.next.Named(ctx, tenant, name)
}
