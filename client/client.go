package client

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"reprise"
)

// DefaultURL is the default address of a server.
const DefaultURL = "http://127.0.0.1:7070"

// Options are the settings of a Client. The zero value of each field means its default.
type Options struct {
	// URL is the URL of the server, for example "https://reprise.example.org/base".
	// Default: the environment variable REPRISE_URL, or DefaultURL.
	URL string
	// Token is sent with each request; "-" means no token. Default: the environment variable REPRISE_TOKEN; without it,
	// for a server on a loopback address, the content of the file "reprise/token" in the user's state directory
	// ($XDG_STATE_HOME, or ~/.local/state), if it exists.
	//
	// If HTTPClient has no Transport of its own, the token of that file is sent only over connections on which
	// the server has proven that it knows the token. Other requests fail with ErrUnproven.
	Token string
	// HTTPClient sends the requests. Its Timeout is ignored, because it would cut off
	// requests that follow a stream. Redirects are never followed, so that no other server gets
	// the token. Default: a client with the settings of http.DefaultTransport.
	HTTPClient *http.Client
	// MinWait and MaxWait limit the time before a request is retried: a
	// random part of MinWait, doubled with each failure up to MaxWait, plus the time that
	// the server asks for. Defaults: 500 ms, 30 s.
	MinWait, MaxWait time.Duration
	// GiveUp is how long a failing call is retried; FollowOptions has its own
	// setting for following. Default: 30 s. Once the server has answered this Client, answers that
	// do not come from the server, such as a proxy's 404, are retried for 60 s.
	// Negative: no retry.
	GiveUp time.Duration
	// GiveUpFirst is GiveUp for calls as long as the server has never answered this Client: there may be none.
	// Default: GiveUp.
	GiveUpFirst time.Duration
	// Timeout limits one attempt of a call, except calls that wait for an event by design. Default: 30 s.
	Timeout time.Duration
	// Logger, if not nil, gets a debug log: requests, answers, states of loops, and causes of waits, but no token.
	// Default: standard error if the environment variable REPRISE_LOG is "debug", and otherwise nothing.
	Logger *slog.Logger
	// Compression says whether the client asks for events in gzip. Default: CompressRemote.
	Compression Compression
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.MinWait = cmp.Or(d.MinWait, 500*time.Millisecond)
	d.MaxWait = cmp.Or(d.MaxWait, 30*time.Second)
	d.GiveUp = cmp.Or(d.GiveUp, 30*time.Second)
	d.GiveUpFirst = cmp.Or(d.GiveUpFirst, d.GiveUp)
	d.Timeout = cmp.Or(d.Timeout, 30*time.Second)
	d.URL = cmp.Or(d.URL, os.Getenv("REPRISE_URL"), DefaultURL)
	d.Token = cmp.Or(d.Token, os.Getenv("REPRISE_TOKEN"))
	return d
}

// Client talks to one server. It is safe for concurrent use and needs no Close.
type Client struct {
	base  string // without a slash at its end
	token string
	http  http.Client
	opts  Options
	// compress is true for a Client that asks for events in gzip.
	compress bool
	log      *slog.Logger
	// foreignGiveUp is the Options.GiveUp that was set, 0 for none.
	foreignGiveUp time.Duration
	met           atomic.Bool // an answer of the server has come
	here          bool        // see OnThisMachine
}

// New returns a Client; opts may be nil. It does not contact the server. The
// error wraps reprise.ErrInvalid for an invalid URL or token. Another error
// means that the token file exists but cannot be read.
func New(opts *Options) (*Client, error) {
	o := opts.withDefaults()
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" ||
		base.Fragment != "" {
		return nil, fmt.Errorf("%w: the server's URL %q is not an http or https URL, such as %s",
			reprise.ErrInvalid, o.URL, DefaultURL)
	}
	found := false // in a file of this machine, for which the server has to prove itself
	if o.Token == "" && isLoopback(base.Hostname()) {
		if o.Token, err = localToken(); err != nil {
			return nil, err
		}
		found = o.Token != ""
	}
	if o.Token == "-" {
		o.Token = ""
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%w: the token contains characters that a header cannot hold", reprise.ErrInvalid)
	}
	c := &Client{
		base:     strings.TrimRight(base.String(), "/"),
		token:    o.Token,
		opts:     o,
		compress: o.Compression.asksFor(base.Hostname()),
		log:      debugLog(o.Logger),
	}
	if opts != nil {
		c.foreignGiveUp = opts.GiveUp
	}
	if o.HTTPClient != nil {
		c.http = *o.HTTPClient
	}
	if c.http.Transport == nil {
		c.http.Transport = sharedTransport()
		if found && base.Scheme == "http" {
			c.http.Transport = provenTransport(c.http.Transport, o.Token)
			c.here = true
		}
	}
	c.http.Timeout = 0
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// URL returns the URL of the server, without a slash at its end.
func (c *Client) URL() string { return c.base }

// OnThisMachine reports whether the server is the one of this user on this machine, so that paths mean the same to
// both: the token comes from the file in the user's state directory, and every connection begins with a proof that the
// server knows it.
func (c *Client) OnThisMachine() bool { return c.here }

// isLoopback keeps the token of this machine's server from others.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// localToken returns the token that the server of this machine has written, or "" if there is none.
func localToken() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", nil //nolint:nilerr // a process without a home has no token file either
		}
		dir = filepath.Join(home, ".local", "state")
	}
	text, err := os.ReadFile(filepath.Join(dir, "reprise", "token"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}
