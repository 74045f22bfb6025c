package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/bench/limit"
)

// gatewayRace is C4: a small call of an MCP tool through "reprise gateway" over SQLite, one at a time, with the default
// settings and with every answer kept. The limit is one commit of SQLite, which is what a kept answer cannot do
// without; the peer is the upstream itself over stdio.
func gatewayRace() Race {
	const (
		commit, direct = "limit=commit", "upstream=direct"
		quick, kept    = "gateway=default", "gateway=kept"
	)
	row := func(what, ours string) Row {
		return Row{
			Target: "C4", What: "a small MCP call through the gateway, SQLite, " + what, Unit: "p50-ms", Ours: ours,
			Limit: commit, Peers: []string{direct}, Goal: Bound{Most: 1},
		}
	}
	return Race{
		Name: "SmallCallThroughGateway",
		Contenders: []Contender{
			{commit, oneCommit, false},
			{direct, smallCallDirect, false},
			{quick, smallCallThroughGateway(), false},
			{kept, smallCallThroughGateway("--quick=-1s"), false},
		},
		Rows: []Row{row("defaults", quick), row("every answer kept", kept)},
	}
}

// oneAtATime calls do so many times and returns the median and the 99th percentile of the time that it takes.
func oneAtATime(scale Scale, do func(ctx context.Context, i int) error) lapFunc {
	took, lap := make([]float64, scale.Of(500, 10)), 0
	return func(ctx context.Context) (Sample, error) {
		for i := range took {
			began := time.Now()
			if err := do(ctx, lap*len(took)+i); err != nil {
				return nil, err
			}
			took[i] = time.Since(began).Seconds() * 1000
		}
		lap++
		slices.Sort(took)
		return Sample{"p50-ms": took[len(took)/2], "p99-ms": took[len(took)*99/100]}, nil
	}
}

func oneCommit(_ context.Context, scale Scale) (Runner, error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	rows, err := limit.CreateRows(filepath.Join(dir, "db"))
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	answer := make([]byte, 200)
	lap := oneAtATime(scale, func(_ context.Context, i int) error { return rows.Append(int64(i), 1, answer) })
	return closing{lap, func() error { return errors.Join(rows.Close(), remove()) }}, nil
}

func smallCallDirect(ctx context.Context, scale Scale) (Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s, err := connectMCP(ctx, &mcp.CommandTransport{Command: exec.Command(self, serveArg, mcpServer)})
	if err != nil {
		return nil, err
	}
	return closing{smallCalls(scale, s), s.Close}, nil
}

func smallCallThroughGateway(flags ...string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		p, err := startVerb(ctx, "gateway", "sqlite:", append(flags, "--", self, serveArg, mcpServer)...)
		if err != nil {
			return nil, err
		}
		s, err := connectMCP(ctx, &mcp.StreamableClientTransport{
			Endpoint: "http://" + p.addr + "/mcp", HTTPClient: &http.Client{Transport: bearer(p.token)},
		})
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		return closing{smallCalls(scale, s), func() error { return errors.Join(s.Close(), p.Close()) }}, nil
	}
}

func connectMCP(ctx context.Context, t mcp.Transport) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	return c.Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
}

// smallCalls calls the tool of serveMCP and checks its answers.
func smallCalls(scale Scale, s *mcp.ClientSession) lapFunc {
	return oneAtATime(scale, func(ctx context.Context, i int) error {
		said := fmt.Sprint("call ", i)
		result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: echoed{said}})
		if err != nil {
			return err
		}
		if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != said {
			return fmt.Errorf("%w: the answer to another call: %+v", errLost, result.Content[0])
		}
		return nil
	})
}

// bearer sends a token with each request.
type bearer string

func (token bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// mcpServer is the name of the server that serveMCP is.
const mcpServer = "mcp"

type echoed struct {
	Text string `json:"text"`
}

// serveMCP is an MCP server over stdin and stdout with a tool that returns what it is given.
func serveMCP(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoed) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	return s.Run(ctx, &mcp.StdioTransport{})
}
