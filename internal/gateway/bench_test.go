package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/gateway"
	"reprise/internal/testserver"
	"reprise/mcp/mcphttp"
	"reprise/store/natsstore"
	"reprise/store/pgstore"
	"reprise/store/redisstore"
	"reprise/store/sqlitestore"
)

// BenchmarkSmallCall is the time of a small call, at the median: to the process itself, and through the gateway over
// memory and over SQLite, as it is and with every answer kept in a stream, by one commit and by two; and to an upstream
// at a URL, and through the gateway. Redis, PostgreSQL and NATS are compared with every answer kept.
func BenchmarkSmallCall(b *testing.B) {
	b.Run("upstream=stdio/gateway=no", func(b *testing.B) {
		client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		s, err := client.Connect(b.Context(), &mcp.CommandTransport{Command: exec.Command(program)}, nil)
		check(b, err)
		defer s.Close()
		measure(b, s)
	})
	for _, version := range versions {
		b.Run("upstream=stdio/gateway=yes/version="+version, func(b *testing.B) {
			f := newFixture(b, gateway.Upstream{}).start()
			measure(b, f.connect(version, nil))
		})
	}
	for _, store := range []string{"memory", "sqlite"} {
		for name, quick := range map[string]time.Duration{"": 0, "/kept=yes/commits=1": -1, "/kept=yes/commits=2": -1} {
			b.Run("upstream=stdio/gateway=yes/store="+store+name, func(b *testing.B) {
				f := newFixture(b, gateway.Upstream{})
				f.opts.Quick = quick
				if store == "sqlite" {
					check(b, f.store.Close())
					opened, err := sqlitestore.Open(b.Context(), b.TempDir()+"/db", nil)
					check(b, err)
					f.store = opened
				}
				if strings.HasSuffix(name, "commits=2") { // as with a Store that is no CreateAppender
					f.store = struct{ reprise.Store }{f.store}
				}
				measure(b, f.start().connect(versions[0], nil))
			})
		}
	}
	for _, store := range []string{"redis", "postgres", "nats"} {
		at := startStore(b, store)
		for commits := 1; commits <= 2; commits++ {
			name := fmt.Sprintf("upstream=stdio/gateway=yes/store=%s/kept=yes/commits=%d", store, commits)
			b.Run(name, func(b *testing.B) {
				f := newFixture(b, gateway.Upstream{})
				f.opts.Quick = -1
				check(b, f.store.Close())
				f.store = at(b)
				if commits == 2 {
					f.store = struct {
						reprise.Store
						reprise.Watcher
					}{f.store, f.store.(reprise.Watcher)}
				}
				measure(b, f.start().connect(versions[0], nil))
			})
		}
	}
	b.Run("transport=mcphttp/gateway=no/store=sqlite", func(b *testing.B) {
		store, err := sqlitestore.Open(b.Context(), b.TempDir()+"/db", nil)
		check(b, err)
		defer store.Close()
		log, err := reprise.Open(b.Context(), store, &reprise.Options{SweepEvery: -1})
		check(b, err)
		defer log.Close()
		server := mcp.NewServer(&mcp.Implementation{Name: "here", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Text string `json:"text"`
		},
		) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
		handler, err := mcphttp.New(log, mcphttp.Server(func(*http.Request) *mcp.Server { return server }), nil)
		check(b, err)
		defer handler.Close()
		at := httptest.NewServer(handler)
		defer at.Close()
		client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		s, err := client.Connect(b.Context(), &mcp.StreamableClientTransport{Endpoint: at.URL},
			&mcp.ClientSessionOptions{ProtocolVersion: versions[0]})
		check(b, err)
		defer s.Close()
		measure(b, s)
	})
	remote := startRemote(b, "127.0.0.1:0")
	b.Run("upstream=http/gateway=no", func(b *testing.B) {
		client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		s, err := client.Connect(b.Context(), &mcp.StreamableClientTransport{Endpoint: remote.url},
			&mcp.ClientSessionOptions{ProtocolVersion: versions[0]})
		check(b, err)
		defer s.Close()
		measure(b, s)
	})
	b.Run("upstream=http/gateway=yes", func(b *testing.B) {
		f := newFixture(b, gateway.Upstream{URL: remote.url}).start()
		measure(b, f.connect(versions[0], nil))
	})
}

// startStore starts a server of a kind with its own settings, and returns how to open a Store on it.
func startStore(b *testing.B, kind string) func(b *testing.B) reprise.Store {
	opened := func(b *testing.B, store reprise.Store, err error) reprise.Store {
		b.Helper()
		check(b, err)
		return store
	}
	switch kind {
	case "redis":
		server := testserver.Redis(b, nil)
		return func(b *testing.B) reprise.Store {
			store, err := redisstore.Open(b.Context(), server.URL(), nil)
			return opened(b, store, err)
		}
	case "postgres":
		server := testserver.Postgres(b, nil)
		return func(b *testing.B) reprise.Store {
			store, err := pgstore.Open(b.Context(), server.URL(), nil)
			return opened(b, store, err)
		}
	}
	server := testserver.NATS(b, nil)
	return func(b *testing.B) reprise.Store {
		store, err := natsstore.Open(b.Context(), server.URL(), nil)
		return opened(b, store, err)
	}
}

func measure(b *testing.B, s *mcp.ClientSession) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := call(s, "echo", args{"text": "hello"}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
}
