// Package facetest starts servers with a face, and has the senders that the tests of faces send requests as.
package facetest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/files"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/reads"
	"reprise/internal/testserver"
	"reprise/internal/web"
	"reprise/store/memstore"
)

// The credentials of the senders.
const (
	Owner    = "the-owner-of-the-server-0123456789"
	Reader   = "reads-and-does-nothing-0123456789"
	Runner   = "runs-and-administers-nothing-012345"
	Writer   = "publishes-and-does-nothing-else-0123"
	Bounded  = "only-names-that-begin-with-team-0123" // reads, runs, publishes and controls them
	Stranger = "of-another-tenant-01234567890123456"
)

// senders verifies them.
type senders struct{}

func (senders) Verify(_ context.Context, credential string) (identity.Principal, error) {
	p := identity.Principal{
		Name: credential, Credential: credential, Tenant: reprise.DefaultTenant, Grants: identity.AllGrants(),
	}
	grant := func(prefix string, scopes ...identity.Scope) {
		p.Grants = nil
		for _, scope := range scopes {
			p.Grants = append(p.Grants, identity.Grant{Scope: scope, Prefix: prefix})
		}
	}
	switch credential {
	case Owner:
	case Reader:
		grant("", identity.ScopeRead)
	case Runner:
		grant("", identity.ScopeRead, identity.ScopeRun, identity.ScopeControl)
	case Writer:
		grant("", identity.ScopePublish)
	case Bounded:
		grant("team", identity.ScopeRead, identity.ScopeRun, identity.ScopePublish, identity.ScopeControl)
	case Stranger:
		p.Tenant = "other"
	default:
		return identity.Principal{}, &identity.GuessError{Reason: "unknown"}
	}
	return p, nil
}

func (s senders) Current(ctx context.Context, credential string) (identity.Principal, error) {
	return s.Verify(ctx, credential)
}

func (s senders) Named(ctx context.Context, _ reprise.Tenant, name string) (identity.Principal, error) {
	return s.Verify(ctx, name)
}

// Server is a server with one face. Its executions and files are in Dir, which is the root "work".
type Server struct {
	testing.TB
	URL, Dir string
	Client   *http.Client
	Engine   *reprise.Log
	Host     *execution.Host
	API      *api.Server
	Files    files.API
	Reads    *reads.Service
}

// Start starts one that ends with the test. opts may be nil. face is called once everything else is there.
func Start(tb testing.TB, opts *reprise.Options, face func(*Server) web.Part) *Server {
	tb.Helper()
	w := &Server{TB: tb, Dir: testserver.TempDir(tb)}
	keys := reprise.NewKeyset()
	if opts == nil {
		opts = &reprise.Options{}
	}
	opts.Keys = keys
	var err error
	w.Engine, err = reprise.Open(context.Background(), memstore.New(nil), opts)
	w.OK(err)
	w.Host, err = execution.Open(context.Background(), w.Engine, &execution.Options{
		Dir: w.Dir, StateDir: tb.TempDir(), Drive: interpreter.Drive,
	})
	w.OK(err)
	roots, err := files.Open(map[string]string{"work": w.Dir}, nil)
	w.OK(err)
	often := &files.WatchOptions{Interval: 5 * time.Millisecond}
	watches, err := files.OpenWatches(w.Engine, roots, tb.TempDir(), often)
	w.OK(err)
	server := &api.Options{Metrics: api.NewMetrics(), Logger: slog.New(slog.DiscardHandler), Quotas: quota.New(nil)}
	server.Reads = api.NewReads(w.Engine, server)
	w.Reads = server.Reads
	w.Files = files.API{Roots: roots, Watches: watches, Reads: server.Reads, Quotas: server.Quotas}
	server.Parts = []web.Part{face(w)}
	w.API, err = api.New(w.Engine, w.Host, identity.NewGate(keys, senders{}, nil), server)
	w.OK(err)
	served := httptest.NewUnstartedServer(nil)
	served.Config = api.NewHTTPServer(w.API)
	served.Start()
	transport := &http.Transport{}
	w.URL, w.Client = served.URL, &http.Client{Transport: transport}
	tb.Cleanup(func() {
		w.API.Drain()
		transport.CloseIdleConnections()
		served.Close()
		w.OK(watches.Close())
		w.OK(roots.Close())
		w.OK(w.Host.Close())
		w.OK(w.Engine.Close())
	})
	return w
}

// OK fails the test if there is an error.
func (w *Server) OK(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
