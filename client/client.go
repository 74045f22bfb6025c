package client

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
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

// DefaultURL is where a server listens that was told nothing else.
const DefaultURL = "http://127.0.0.1:7070"

// Options are the settings of a Client. The zero value of each field means its default.
type Options struct {
	// URL is the server's, for example "https://reprise.example.org/base".
	// Default: the environment's REPRISE_URL, or DefaultURL.
	URL string
	// Token is sent with each request. Default: the environment's REPRISE_TOKEN;
	// without it, for a server on a loopback address, what the file "reprise/token" in the
	// user's state directory holds ($XDG_STATE_HOME, or ~/.local/state), if it exists.
	// "-" is no token at all. The token of that file is sent over connections alone on which
	// the server has proven to know it, if HTTPClient has no Transport of its own; others fail
	// with ErrUnproven.
	Token string
	// HTTPClient sends the requests. Its Timeout does not count, for it would cut
	// those off that follow. Redirects are never followed: the token is not for other
	// servers. Default: one with the settings of http.DefaultTransport.
	HTTPClient *http.Client
	// MinWait and MaxWait bound the time before a request is tried again: a
	// random part of MinWait, doubled with each failure up to MaxWait, on top of what
	// the server asks for. Defaults: 500 ms, 30 s.
	MinWait, MaxWait time.Duration
	// GiveUp is for how long a failing call is tried again; following has its own, in
	// FollowOptions. Default: 30 s, and 60 s against answers that are not the
	// server's, such as a proxy's 404, once the server has answered this Client;
	// negative: no second try.
	GiveUp time.Duration
	// Timeout bounds one try of a call that does not wait for something by its
	// nature. Default: 30 s.
	Timeout time.Duration
	// Compression says whether events are asked for in gzip. Default: CompressRemote.
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
	// foreignGiveUp is the Options.GiveUp that was set, 0 for none.
	foreignGiveUp time.Duration
	met           atomic.Bool // an answer of the server has come
}

// New returns a Client; opts may be nil. It does not talk to the server. The
// error wraps reprise.ErrInvalid for a URL or token that cannot be used; or the token
// file is there and cannot be read.
func New(opts *Options) (*Client, error) {
	o := opts.withDefaults()
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" ||
		base.Fragment != "" {
		return nil, fmt.Errorf("%w: the server's URL %q is no http or https URL without a query",
			reprise.ErrInvalid, o.URL)
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
		return nil, fmt.Errorf("%w: the token holds what no header can", reprise.ErrInvalid)
	}
	c := &Client{
		base:     strings.TrimRight(base.String(), "/"),
		token:    o.Token,
		opts:     o,
		compress: o.Compression.asksFor(base.Hostname()),
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
		}
	}
	c.http.Timeout = 0
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// URL is the server's, without a slash at its end.
func (c *Client) URL() string { return c.base }

// isLoopback keeps the token of this machine's server from others.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// localToken is what the server of this machine has written, "" if there is none.
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
