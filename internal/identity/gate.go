package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/httpserver"
)

// CookieName is the name of the login cookie. Over TLS, including TLS to a trusted proxy, it has the prefix "__Host-":
// browsers then accept it only from this host (RFC 6265bis, section 4.1.3.2).
const CookieName = "reprise_login"

func cookieName(r *http.Request) string {
	if httpserver.IsSecure(r) {
		return "__Host-" + CookieName
	}
	return CookieName
}

// LoginHeader is the header that has to carry the second secret of a login with each use of its cookie. Browsers send a
// cookie to every port of its host, so other programs see it; the secret is seen only by pages of our own origin.
const LoginHeader = "Login-Secret"

// TicketParam is the query parameter that carries a ticket.
const TicketParam = "ticket"

// Bounds of a ticket's time to live, inclusive, and its default.
const (
	MaxTicketTTL     = 24 * time.Hour
	DefaultTicketTTL = 10 * time.Minute
)

// Options are the settings of a Gate. The zero value of each field means its default.
type Options struct {
	// CookieTTL is the lifetime of a login. Default: 12 hours.
	CookieTTL time.Duration
	// Failures is how many wrong credentials one address may show
	// at once, for each credential that they name, and FailureEvery how long one of them takes to come back.
	// Beyond that wrong ones are answered with a *LimitError. Defaults: 20, 1 second.
	Failures     int
	FailureEvery time.Duration
	// Certificates, if not nil, says whom client certificates stand for that the server has verified.
	Certificates Certificates
	// Logins, if not nil, keeps which logins have ended. Without it a copy of a cookie is good until it expires.
	Logins Logins
}

// Logins keeps which logins have ended. Implementations are safe for concurrent use.
type Logins interface {
	// Life is done, with ErrRevoked as its cause, when the login with an id has ended. Its cookie expires at expires.
	Life(id string, expires time.Time) context.Context
	// End ends a login. The login has ended here even if the error reports that other replicas do not know that.
	End(ctx context.Context, id string, expires time.Time) error
}

// Gate turns requests into principals. It is safe for concurrent use.
type Gate struct {
	keys     *reprise.Keyset // derived, for cookies and tickets alone
	verifier Verifier
	opts     Options
	failures *failures
}

// NewGate returns a Gate. The keys for cookies and tickets are derived from keys. With a nil verifier, every sender is
// the default tenant with all permissions, which is only for loopback. Tickets are still checked. opts may be nil.
func NewGate(keys *reprise.Keyset, verifier Verifier, opts *Options) *Gate {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.CookieTTL == 0 {
		o.CookieTTL = 12 * time.Hour
	}
	if o.Failures == 0 {
		o.Failures = 20
	}
	if o.FailureEvery == 0 {
		o.FailureEvery = time.Second
	}
	return &Gate{
		keys: keys.Derive("reprise access 1"), verifier: verifier, opts: o,
		failures: newFailures(o.Failures, o.FailureEvery),
	}
}

// Open reports whether the Gate lets everybody in.
func (g *Gate) Open() bool { return g.verifier == nil }

// Identify says who sent r. A ticket counts if there is one, so that a link means
// the same to everybody; else the header Authorization, else the cookie, else a client certificate. The error
// wraps ErrUnauthenticated or is a *LimitError.
//
// A right credential is let in however many wrong ones came from the same address,
// for many users may share one behind a proxy. Guessing is not made easier by
// that: tokens and codes have far too many bits. A request without a credential is no guess, and is never limited as
// one.
func (g *Gate) Identify(r *http.Request) (Principal, error) {
	p, err := g.identify(r)
	if err != nil {
		return Principal{}, g.noteGuess(r, err)
	}
	return p, nil
}

// Known is Identify for a request that is identified again elsewhere, where guesses are counted.
func (g *Gate) Known(r *http.Request) (Principal, error) { return g.identify(r) }

// noteGuess counts a guess and returns the error for the sender; it returns other errors unchanged.
func (g *Gate) noteGuess(r *http.Request, err error) error {
	guess, ok := errors.AsType[*GuessError](err)
	if !ok {
		return err
	}
	return g.failures.note(r.RemoteAddr, guess.ID, err)
}

// Named returns the current permissions of a principal that Identify has returned before. The error wraps
// ErrUnauthenticated.
func (g *Gate) Named(ctx context.Context, tenant reprise.Tenant, name string) (Principal, error) {
	if g.verifier == nil {
		return anybody(), nil
	}
	return g.verifier.Named(ctx, tenant, name)
}

// anybody is whom an open Gate lets in.
func anybody() Principal {
	return Principal{Name: "anybody", Tenant: reprise.DefaultTenant, Grants: AllGrants()}
}

func (g *Gate) identify(r *http.Request) (Principal, error) {
	if ticket := ticketOf(r); ticket != "" {
		return g.ticket(r, ticket)
	}
	if g.verifier == nil {
		return anybody(), nil
	}
	if header := r.Header.Get("Authorization"); header != "" {
		credential, err := bearer(header)
		if err != nil {
			return Principal{}, err
		}
		return g.verify(r, credential)
	}
	certificate := certificateOf(r)
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		p, err := g.loggedIn(r, cookie.Value)
		if err == nil || certificate == nil {
			return p, err
		}
	}
	if certificate != nil && g.opts.Certificates != nil {
		return g.certified(r.Context(), certificate)
	}
	return Principal{}, fmt.Errorf("%w: no token, cookie or ticket was sent", ErrUnauthenticated)
}

// ticketOf returns the ticket in the query of r, or "". It parses only a query that may have one: the name of a
// parameter is written as it is, or with escapes.
func ticketOf(r *http.Request) string {
	if raw := r.URL.RawQuery; !strings.Contains(raw, TicketParam) && !strings.Contains(raw, "%") {
		return ""
	}
	return r.URL.Query().Get(TicketParam)
}

// verify verifies a credential that came with r, and refuses one that was made for other paths.
func (g *Gate) verify(r *http.Request, credential string) (Principal, error) {
	p, err := g.verifier.Verify(r.Context(), credential)
	if err == nil && p.Paths != nil && !slices.Contains(p.Paths, r.URL.Path) {
		return Principal{}, fmt.Errorf("%w: the token was issued for another resource", ErrUnauthenticated)
	}
	return p, err
}

// bearer takes the credential out of the header (RFC 6750, section 2.1; the
// scheme knows no case, RFC 9110, section 11.1).
func bearer(header string) (string, error) {
	scheme, credential, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || credential == "" {
		return "", fmt.Errorf("%w: the header Authorization is not \"Bearer TOKEN\"", ErrUnauthenticated)
	}
	return strings.TrimSpace(credential), nil
}

// login reads the cookie of a login, which counts only together with its second secret. A wrong secret is no guess: the
// cookie is right, and a tab of the browser may have the secret of an earlier login.
func (g *Gate) login(r *http.Request, cookie string) (claims, error) {
	c, err := unseal(g.keys, cookieLabel, cookie, time.Now())
	if err != nil {
		return c, err
	}
	if subtle.ConstantTimeCompare([]byte(digest(r.Header.Get(LoginHeader))), []byte(c.Secret)) != 1 {
		return c, fmt.Errorf("%w: the cookie of a login counts only with its secret in the header %s",
			ErrUnauthenticated, LoginHeader)
	}
	return c, nil
}

// digest is what a cookie reveals of the second secret of its login.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// loggedIn checks the cookie of a login, and looks up the credential that it names.
func (g *Gate) loggedIn(r *http.Request, cookie string) (Principal, error) {
	c, err := g.login(r, cookie)
	if err != nil {
		return Principal{}, err
	}
	return g.issued(r, c)
}

// ticket checks a ticket, and looks up the credential that it names.
func (g *Gate) ticket(r *http.Request, text string) (Principal, error) {
	c, err := unseal(g.keys, ticketLabel, text, time.Now())
	if err != nil {
		return Principal{}, err
	}
	return g.issued(r, c)
}

// issued looks up the credential that a cookie or ticket names.
func (g *Gate) issued(r *http.Request, c claims) (Principal, error) {
	p, err := g.current(r.Context(), c.Credential)
	if err != nil {
		return Principal{}, err
	}
	if c.ID != "" && g.opts.Logins != nil {
		p.LoggedOut = g.opts.Logins.Life(c.ID, time.Unix(c.Expires, 0))
		if p.LoggedOut.Err() != nil {
			return Principal{}, fmt.Errorf("%w: logged out", ErrUnauthenticated)
		}
	}
	p.Expires = earlier(time.Unix(c.Expires, 0), p.Expires)
	if c.Stream != "" {
		p.Only = reprise.StreamKey{Tenant: p.Tenant, Name: c.Stream}
	}
	return p, nil
}

// current is whose a credential is that a cookie or ticket names.
func (g *Gate) current(ctx context.Context, credential string) (Principal, error) {
	if g.verifier == nil {
		return anybody(), nil
	}
	return g.verifier.Current(ctx, credential)
}

// Login is what a browser gets for a credential: a cookie that no script can read, and a secret that the page keeps and
// sends as LoginHeader. Neither counts without the other.
type Login struct {
	Cookie *http.Cookie
	Secret string
}

// Login verifies a credential and returns a login that represents it, and its principal. An open Gate accepts any
// credential and returns a login without effect. The errors are those of Identify; r is the request with the
// credential.
func (g *Gate) Login(r *http.Request, credential string) (Login, Principal, error) {
	p := anybody()
	if g.verifier != nil {
		var err error
		if p, err = g.verify(r, credential); err != nil {
			return Login{}, p, g.noteGuess(r, err)
		}
	}
	secret := rand.Text()
	expires := earlier(time.Now().Add(g.opts.CookieTTL), p.Expires)
	value, err := seal(g.keys, cookieLabel, claims{
		Credential: p.Credential, ID: rand.Text()[:16], Secret: digest(secret), Expires: expires.Unix(),
	})
	if err != nil {
		return Login{}, p, err
	}
	cookie := g.cookie(r, value)
	cookie.Expires = expires
	return Login{Cookie: cookie, Secret: secret}, p, nil
}

// Logout ends the login whose cookie and secret r carries, with its connections, and returns the cookie that deletes it
// in a browser. It returns the cookie also with an error, which means that other replicas may not know of the logout.
func (g *Gate) Logout(r *http.Request) (*http.Cookie, error) {
	forget := g.cookie(r, "")
	forget.MaxAge = -1
	cookie, err := r.Cookie(cookieName(r))
	if err != nil || g.opts.Logins == nil {
		return forget, nil //nolint:nilerr // a sender without a cookie is logged out
	}
	c, err := g.login(r, cookie.Value)
	if err != nil || c.ID == "" {
		return forget, nil //nolint:nilerr // it is good for nothing
	}
	return forget, g.opts.Logins.End(r.Context(), c.ID, time.Unix(c.Expires, 0))
}

func (g *Gate) cookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/",
		HttpOnly: true, Secure: httpserver.IsSecure(r), SameSite: http.SameSiteStrictMode,
	}
}

// earlier is the earlier of two times, of which the second may be none.
func earlier(t, limit time.Time) time.Time {
	if !limit.IsZero() && limit.Before(t) {
		return limit
	}
	return t
}
