package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"reprise"
	"reprise/internal/bytesize"
	"reprise/internal/node"
	"reprise/internal/quota"
	"reprise/internal/relay"
	"reprise/internal/storeurl"
)

// relayCmd records the streaming answers of a backend.
type relayCmd struct {
	Backend string `arg:"" placeholder:"URL" help:"Where requests go, for example http://127.0.0.1:3000. Its path is put before theirs."`

	Listen string   `default:"127.0.0.1:7072" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one. Default: ${default}."`
	Data   string   `placeholder:"DIR" help:"Data directory: store and keys. Default: reprise/relay in $$XDG_STATE_HOME or ~/.local/state."`
	Store  storeURL `placeholder:"URL" help:"Where recordings are kept, as with serve, but not on a server that others share. Default: log:"`

	storeKeys     `embed:""`
	Key           []string      `env:"-" sep:"none" placeholder:"RULE" help:"Where a request has the key by which it is passed on once: header:NAME, or json:/POINTER,/POINTER with pointers into a body of JSON. May be repeated; the first that finds a value counts. The header Idempotency-Key always does."`
	Latest        string        `placeholder:"RULE" help:"What groups answers, such as json:/id for the chat of a request, with --latest-path."`
	LatestPath    string        `placeholder:"PATH" help:"Path that answers GET with the newest answer of a group while it is under way, otherwise with 204; {key} stands for the value of --latest, as in /api/chat/{key}/stream."`
	AllowHost     []string      `placeholder:"NAME" help:"Host name by which the relay may be called, in addition to loopback and its address. May be repeated."`
	Credential    []string      `sep:"none" placeholder:"NAME" help:"Header that says whose answer it is, beside Authorization, X-Api-Key and Api-Key. May be repeated."`
	Cookie        []string      `sep:"none" placeholder:"NAME" help:"Cookie that says whose answer it is, beside these headers. May be repeated. Default: all cookies."`
	Grace         time.Duration `placeholder:"DURATION" help:"How long the backend goes on when no client reads its answer. Default: 5m."`
	Retry         bool          `help:"Let a request under the key of an answer that was not completed call the backend again."`
	RetainBytes   bytesize.Size `placeholder:"SIZE" help:"Maximum number of bytes that is kept of an answer. Default: 64MiB."`
	RetainAge     time.Duration `placeholder:"DURATION" help:"How long an answer is kept after its end. Default: 24h."`
	MaxTotalBytes bytesize.Size `placeholder:"SIZE" help:"Maximum number of bytes that all answers keep. Default: 16GiB."`
	Heartbeat     time.Duration `default:"15s" placeholder:"DURATION" help:"Silence after which a reader is sent a comment, so that proxies do not cut the connection. Default: ${default}."`
	Drain         time.Duration `default:"10s" placeholder:"DURATION" help:"How long answers that are under way may continue after the first INT or TERM. Default: ${default}."`
	tlsFlags      `embed:"" group:"Connections:"`
	proxyFlags    `embed:"" group:"Connections:"`
	logFlags      `embed:"" group:"Logs:"`
}

// Help is shown below the usage.
func (*relayCmd) Help() string {
	return `Requests are passed on. An answer that streams (text/event-stream or NDJSON) is recorded while it is passed on, and gets ids: a client that is cut off comes back by Last-Event-ID, by the same Idempotency-Key, or at the path in the header Stream-Location, and gets the rest. The backend is called once, goes on meanwhile, and is stopped by DELETE of that path. All other answers pass untouched.

The relay does not authenticate: whoever reaches it reaches the backend. docs/relay.md describes it.`
}

// Run serves until it is asked to stop.
func (c *relayCmd) Run(ctx context.Context, asked *stops) error {
	if err := c.proxyFlags.check(c.Listen, &c.tlsFlags); err != nil {
		return err
	}
	logger := newLogger(c.LogFormat, c.LogLevel)
	return pass(ctx, asked, c.Drain, node.Relay, func() (*node.Options, error) { return c.settings(logger) },
		func(s *node.Node, o *node.Options) {
			s.Begin()
			fmt.Fprintln(stdout, "passing requests on to", o.RelayTo.Backend.Redacted())
			fmt.Fprintln(stdout, "answers in", storeurl.Text(s.Dir(), o.Store))
		})
}

func (c *relayCmd) settings(logger *slog.Logger) (*node.Options, error) {
	backend, err := relay.ParseBackend(c.Backend)
	if err != nil {
		return nil, usage("%w", err)
	}
	c.Data = cmp.Or(c.Data, defaultRelayDir())
	c.Store = c.Store.in(c.Data)
	o := &node.Options{
		Data: c.Data, Secrets: c.Data, Store: c.Store.url, StoreKeys: c.file(c.Data),
		Log: reprise.Options{
			Retention:     reprise.Retention{MaxBytes: int64(c.RetainBytes), MaxAge: c.RetainAge},
			MaxTotalBytes: int64(c.MaxTotalBytes),
		},
		Listen: c.Listen, Listening: printListening, Open: true, Heartbeat: c.Heartbeat, Quotas: &quota.Options{},
		AllowHosts: c.AllowHost, Version: buildVersion(), Logger: logger, LogRequests: c.Requests,
		RelayTo: relay.Options{
			Backend: backend, Latest: relay.Rule(c.Latest), LatestPath: c.LatestPath, Cookies: c.Cookie, Grace: c.Grace,
			Credentials: c.Credential,
			Retry:       c.Retry, Keys: relay.Rules(c.Key),
		},
	}
	if o.TLS, err = c.tlsConfig(logger); err != nil {
		return nil, err
	}
	connections := connectionFlags{}
	o.HTTP, err = c.apply(connections.options(logger))
	return o, err
}

// defaultRelayDir is the data directory of a relay.
func defaultRelayDir() string {
	if dir := defaultDataDir(); dir != "" {
		return filepath.Join(dir, "relay")
	}
	return ""
}
