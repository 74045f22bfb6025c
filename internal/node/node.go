// Package node composes a server from parts.
//
// A [Part] opens one capability: it uses what earlier parts have put into the [Node], adds its paths, and says how it
// is closed. A server is a list of parts in the order of their dependencies: see [Serve], [Gateway] and [Windows]. To
// add a capability, write its part and put it into these lists.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/apikey"
	"reprise/internal/audit"
	"reprise/internal/datadir"
	"reprise/internal/drain"
	"reprise/internal/execution"
	"reprise/internal/files"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/isolation"
	"reprise/internal/logins"
	"reprise/internal/mcpmetrics"
	"reprise/internal/oidc"
	"reprise/internal/otlp"
	"reprise/internal/quota"
	"reprise/internal/reads"
	"reprise/internal/relay"
	"reprise/internal/schedule"
	"reprise/internal/upkeep"
	"reprise/internal/web"
	"reprise/internal/webhook"
	"reprise/replica"
)

// Options are the settings of a server, as the flags of the program have them. A field that belongs to a part which a
// server has not is ignored.
type Options struct {
	// Data is the data directory, Secrets the directory of the token and of the keys that sign cursors.
	Data, Secrets string
	// Store is the URL of the store, StoreKeys the path of its keys. Archive, if not nil, wraps the store to archive
	// streams before they are swept.
	Store, StoreKeys string
	// MaxStreams is how many streams an embedded store keeps that has them in memory; 0 is its own default.
	MaxStreams int
	Archive    func(reprise.Store) (reprise.Store, error)
	// Log has the limits and times of the log. The rest of it is set here.
	Log reprise.Options
	// Replica is the prefix of this server's name among the replicas of its store.
	Replica string

	// Listen is the address to listen on, in place of which Passed is used if it is not nil. With TakeOver, the server
	// that holds the data directory hands its socket over, if CheckAddress accepts its address.
	Listen       string
	Passed       net.Listener
	TakeOver     bool
	CheckAddress func(address string) error
	TLS          *tls.Config // nil for plain connections
	HTTP         *httpserver.Options
	Park         bool // readers that wait
	// Listening, if not nil, is called with the URL once the server accepts connections.
	Listening func(url string)

	// Open lets everybody in. Otherwise the token and API keys do, and the tokens of Issuers, made for PublicURL.
	Open                     bool
	Issuers                  []oidc.Issuer
	PublicURL                string
	AllowHosts, AllowOrigins []string
	Quotas                   *quota.Options
	Audit                    bool // record who does what

	// Isolation returns how commands are kept from what is not theirs. It is called when the files of the server are
	// there. Executions has the limits of executions; the rest of it is set here.
	Isolation  func() (isolation.Config, error)
	Executions execution.Options
	// Files returns the directories of clients by name. Nil for none.
	Files func() (map[string]string, error)
	// Faces are the faces for clients of other systems, by their names, with the prefixes of their paths.
	Faces map[string]string

	// MCPVersions are the versions of the Model Context Protocol that are served over HTTP, and ResponseAge is the age
	// at which a response to a call is closed, to be resumed. Defaults: mcphttp's. CallGrace is how long a run
	// goes on whose call was cut off on version 2026-07-28. Default: not at all.
	MCPVersions            []string
	ResponseAge, CallGrace time.Duration

	// DrainFor is how long a server that is asked to stop waits for its commands, without new ones. Default: not at
	// all.
	DrainFor time.Duration

	Heartbeat     time.Duration
	NoCompression bool
	CloseEvent    bool // of ssehttp.Options
	WebhookAllow  []netip.Prefix
	WebhookGiveUp time.Duration
	OTLPEndpoint  string
	// Directory is where the tools of [Windows] run commands, and MaxBytes what a call of them shows by default.
	Directory string
	MaxBytes  int
	// Upstreams are the settings of [Gateway].
	Upstreams Upstreams
	// RelayTo are the settings of [Relay], and Relays the settings of the relays of [Serve], each with its Mount.
	RelayTo relay.Options
	Relays  []relay.Options

	Version string
	Logger  *slog.Logger
	// LogRequests selects the requests that are logged.
	LogRequests httpserver.Requests
}

// UsageError is an error in the settings, which the text calls by the names of flags.
type UsageError struct{ err error }

// Error implements error.
func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Part opens a capability of a server. What it gives to Node.onClose is called when the server is closed, or when the
// store has to be opened again because a later part has failed.
type Part func(ctx context.Context, n *Node) error

// Node is a server. Its fields are set by its parts.
type Node struct {
	Options

	dir      *datadir.Dir
	cursors  *reprise.Keyset
	verifier identity.Verifier // of the token; nil lets everybody in
	front    *front            // nil for a server without one
	issuers  *oidc.Verifier    // nil for none
	handover *handover

	metrics   *api.Metrics
	mcp       *mcpmetrics.Metrics
	quotas    *quotas
	tracer    *otlp.Tracer // nil for none
	store     reprise.Store
	starts    *upkeep.Starts
	log       *reprise.Log
	member    *replica.Member  // nil where there can be no other replicas
	keys      *apikey.Registry // nil where everybody is let in
	audit     *audit.Trail     // nil where nothing is recorded
	logins    *logins.Logins   // nil where there is nothing to log out of
	isolation isolation.Config
	host      *execution.Host
	left      int // commands that continue without this server
	drain     *drain.Drain
	gate      *identity.Gate
	reads     *reads.Service
	files     files.API // without Roots if no directories are offered
	tools     *mcpEndpoint
	upstreams []*gatewayEndpoint
	relays    []*relay.Relay
	webhooks  *webhook.Hooks
	schedules *schedule.Schedules
	routes    []web.Part // in addition to the API's

	closers []func() error
}

// onClose adds f to what closes the server, in the reverse order of opening.
func (n *Node) onClose(f func() error) { n.closers = append(n.closers, f) }

// closeTo closes what was opened since there were so many closers.
func (n *Node) closeTo(count int) error {
	var errs []error
	for len(n.closers) > count {
		last := len(n.closers) - 1
		f := n.closers[last]
		n.closers = n.closers[:last]
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Close closes what was opened, from the outside in. Running commands are left to their supervisors.
func (n *Node) Close() error { return n.closeTo(0) }

// URL returns the URL of a server that listens.
func (n *Node) URL() string { return n.front.url() }

// Address returns its address.
func (n *Node) Address() net.Addr { return n.front.listener.Addr() }

// Begin accepts connections from now on, if that was not begun while the store was awaited.
func (n *Node) Begin() { n.front.begin() }

// Dir returns the path of the data directory.
func (n *Node) Dir() string { return n.dir.Path }

// Replica returns the name of the server among the replicas of its store, "" if there can be no others.
func (n *Node) Replica() string {
	if n.member == nil {
		return ""
	}
	return n.member.Name()
}

// open opens a server that listens, and its parts. After an error nothing stays open.
func open(ctx context.Context, o *Options, resource oidc.Options, parts []Part) (n *Node, err error) {
	n = &Node{Options: *o}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
			n = nil
		}
	}()
	var taken net.Listener
	if n.dir, taken, err = take(ctx, o); err != nil {
		return n, err
	}
	n.onClose(n.dir.Close)
	if taken != nil {
		n.Passed, n.Listen = taken, taken.Addr().String()
		defer func() {
			if n.front == nil {
				err = errors.Join(err, taken.Close())
			}
		}()
	}
	if err := n.openCredentials(); err != nil {
		return n, err
	}
	// The address comes before the store, for it is quickly known to be taken.
	if err := n.openFront(ctx); err != nil {
		return n, err
	}
	if n.issuers, err = n.openIssuers(&resource); err != nil {
		return n, err
	}
	n.onClose(func() error { n.issuers.Close(); return nil })
	return n, n.awaitStore(ctx, parts)
}

// openParts opens parts in their order.
func (n *Node) openParts(ctx context.Context, parts []Part) error {
	n.metrics = api.NewMetrics()
	n.mcp = mcpmetrics.New(n.metrics.Registry())
	n.routes, n.upstreams = nil, nil
	for _, part := range parts {
		if err := part(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// openCredentials opens the keys that sign cursors and the token. Both are made on the first start.
func (n *Node) openCredentials() (err error) {
	if err := os.MkdirAll(n.Secrets, 0o700); err != nil {
		return fmt.Errorf("directory of the secrets: %w", err)
	}
	path := filepath.Join(n.Secrets, datadir.KeysFile)
	if n.cursors, err = reprise.LoadKeyset(path); err != nil {
		return n.unmade(err)
	}
	const newKeys = `if others may have read it, "reprise secrets rotate keys", with --forget once no old cursor is in use`
	if err = datadir.CheckPrivate(path, newKeys); err != nil || n.Open {
		return err
	}
	path = filepath.Join(n.Secrets, datadir.TokenFile)
	token, err := identity.LoadToken(path)
	if err != nil {
		return n.unmade(err)
	}
	const newToken = `if others may have read it, "reprise secrets rotate token"`
	if err := datadir.CheckPrivate(path, newToken); err != nil {
		return err
	}
	n.verifier, err = identity.NewToken(token)
	return err
}

// unmade adds what helps where a secret is missing and cannot be made.
func (n *Node) unmade(err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return err
	}
	return fmt.Errorf("secrets: %w; make them with \"reprise secrets DIR\" as a user that may write there; under systemd "+
		"LoadCredential= names that DIR", err)
}
