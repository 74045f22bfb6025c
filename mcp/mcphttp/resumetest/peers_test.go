package resumetest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcpstore"
	"reprise/replica"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// The test binary is also each of the servers that are checked, in a process that can be killed.

// Environment of a child: what it serves (see peers), where, where its other replica does, and the file of its store,
// "" for one in memory that two replicas share.
const (
	envPeer    = "RESUMETEST_PEER"
	envAddr    = "RESUMETEST_ADDR"
	envReplica = "RESUMETEST_REPLICA"
	envFile    = "RESUMETEST_FILE"
)

const (
	// kept is how many messages of a stream our stores keep in these tests.
	kept = 1000
	// sdkKept is a number of messages that the 10 MiB of the Go SDK's memory store do not hold twice.
	sdkKept = 60_000
)

// peer is a server that is checked.
type peer struct {
	name string
	// handler makes a server over a Log of one replica.
	handler func(*replicaOf) http.Handler
	// ownStore is set if it keeps its events in a memory of its own, and knows nothing of the Log.
	ownStore bool
	kept     int
}

// replicaOf is what a replica has.
type replicaOf struct {
	log    *reprise.Log
	member *replica.Member
}

var retention = reprise.Retention{MaxEvents: kept}

var peers = []peer{
	{name: "mcphttp", kept: kept, handler: ours},
	{name: "Go SDK", kept: sdkKept, ownStore: true, handler: func(*replicaOf) http.Handler {
		return goSDK(mcp.NewMemoryEventStore(nil))
	}},
	{name: "Go SDK with mcpstore", kept: kept, handler: func(r *replicaOf) http.Handler {
		return goSDK(mcpstore.New(r.log, &mcpstore.Options{Retention: retention}))
	}},
	{
		name:     "mcp-go",
		ownStore: true,
		handler:  func(*replicaOf) http.Handler { return mcpGo(server.NewInMemoryEventStore()) },
	},
	{name: "mcp-go with mcpstore", kept: kept, handler: func(r *replicaOf) http.Handler {
		return mcpGo(mcpstore.NewForMCPGo(r.log, &mcpstore.Options{Retention: retention}))
	}},
}

type countInput struct {
	Steps   int `json:"steps"`
	DelayMS int `json:"delay_ms"`
}

// count calls step with 1 to in.Steps, and pauses after each.
func (in countInput) count(step func(float64)) string {
	for i := range in.Steps {
		step(float64(i + 1))
		time.Sleep(time.Duration(in.DelayMS) * time.Millisecond)
	}
	return fmt.Sprintf("counted to %d", in.Steps)
}

// counter is a server of the Go SDK with the tool.
func counter() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "counter", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{
		Name: "count",
	}, func(ctx context.Context, req *mcp.CallToolRequest, in countInput) (*mcp.CallToolResult, any, error) {
		text := in.count(func(n float64) {
			_ = req.Session.NotifyProgress(ctx,
				&mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: n})
		})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	return s
}

func goSDK(events mcp.EventStore) http.Handler {
	s := counter()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{EventStore: events})
}

func mcpGo(events server.EventStore) http.Handler {
	s := server.NewMCPServer("counter", "1")
	s.AddTool(mcpgo.NewTool(
		"count", mcpgo.WithNumber("steps"), mcpgo.WithNumber("delay_ms"),
	), func(ctx context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		in := countInput{Steps: req.GetInt("steps", 0), DelayMS: req.GetInt("delay_ms", 0)}
		return mcpgo.NewToolResultText(in.count(func(n float64) {
			params := map[string]any{"progressToken": req.Params.Meta.ProgressToken, "progress": n}
			// Its channel is short and drops what does not fit, which is no matter of resuming.
			for try := 0; s.SendNotificationToClient(ctx, "notifications/progress", params) != nil &&
				try < 1000; try++ {
				time.Sleep(time.Millisecond)
			}
		})), nil
	})
	return server.NewStreamableHTTPServer(s, server.WithEventStore(events), server.WithStateful(true))
}

func ours(r *replicaOf) http.Handler {
	s := counter()
	h, err := mcphttp.New(r.log, mcphttp.Server(func(*http.Request) *mcp.Server { return s }), &mcphttp.Options{
		Replica: r.member, Retention: retention,
		Identify: func(r *http.Request) (reprise.Tenant, string, error) {
			return reprise.DefaultTenant, r.Header.Get("Authorization"), nil
		},
	})
	must(err)
	return h
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// faulty is a Store that can be made to fail.
type faulty struct {
	reprise.Store
	fails *atomic.Bool
}

func (f *faulty) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if !f.fails.Load() {
		return f.Store.Append(ctx, reqs)
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = f.err()
	}
	return errs
}

func (f *faulty) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if f.fails.Load() {
		return reprise.Page{}, f.err()
	}
	return f.Store.Read(ctx, key, after, maxBytes)
}

func (f *faulty) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if f.fails.Load() {
		return reprise.StreamInfo{}, f.err()
	}
	return f.Store.Create(ctx, info)
}

func (f *faulty) err() error { return fmt.Errorf("%w: a fault of the test", reprise.ErrUnavailable) }

// Watch makes a shared Store inside be one of replicas.
func (f *faulty) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	if w, ok := f.Store.(reprise.Watcher); ok {
		return w.Watch(key, moved)
	}
	return nil, errors.ErrUnsupported
}

// serveChild serves a peer until it is killed, or its stdin ends: with the test.
func serveChild() {
	name := os.Getenv(envPeer)
	for _, p := range peers {
		if p.name == name {
			p.serve(os.Getenv(envAddr), os.Getenv(envReplica), os.Getenv(envFile))
		}
	}
	must(errors.New("no such peer"))
}

func (p peer) serve(addr, other, file string) {
	var fails atomic.Bool
	keys := reprise.NewKeyset()
	var err error
	if file != "" {
		keys, err = reprise.LoadKeyset(file + ".keys")
		must(err)
		store, err := sqlitestore.Open(context.Background(), file, nil)
		must(err)
		p.listen(addr, p.replica(&faulty{store, &fails}, keys), &fails)
	} else {
		hub := shared.New(memstore.New(nil))
		p.listen(addr, p.replica(&faulty{hub.Store(), &fails}, keys), &fails)
		p.listen(other, p.replica(&faulty{hub.Store(), &fails}, keys), &fails)
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// replica is a replica of the peer over a Store.
func (p peer) replica(store reprise.Store, keys *reprise.Keyset) http.Handler {
	log, err := reprise.Open(context.Background(), store, &reprise.Options{Keys: keys})
	must(err)
	r := &replicaOf{log: log}
	if log.Shared() {
		r.member, err = replica.Join(context.Background(), log, nil)
		must(err)
	}
	return p.handler(r)
}

// listen serves a replica at addr. A POST to /fault/on and /fault/off makes the store of all replicas fail and work.
func (p peer) listen(addr string, h http.Handler, fails *atomic.Bool) {
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	mux.HandleFunc("POST /fault/{to}", func(_ http.ResponseWriter, req *http.Request) {
		fails.Store(strings.HasSuffix(req.URL.Path, "on"))
	})
	l, err := net.Listen("tcp", addr)
	must(err)
	go func() { must(http.Serve(l, mux)) }()
}
