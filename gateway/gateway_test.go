package gateway_test

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots and logging

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/gateway"
)

func TestCalls(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		w := newWorld(t, gateway.Upstream{}).start()
		s := w.connect(version, nil)
		w.want(s, "echo", args{"text": "hi"}, "hi")
		tools, err := s.ListTools(t.Context(), nil)
		check(t, err)
		if !slices.ContainsFunc(tools.Tools, func(t *mcp.Tool) bool { return t.Name == "steps" }) {
			t.Errorf("the tools are %v", tools.Tools)
		}
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://a"})
		check(t, err)
		if read.Contents[0].Text != "A" {
			t.Errorf("the resource is %v", read.Contents)
		}
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://none"}); err == nil {
			t.Error("a resource that is not there was read")
		}
	})
}

func TestProgressComesToWhoAskedForIt(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		w := newWorld(t, gateway.Upstream{}).start()
		type progress struct {
			token any
			text  string
		}
		got := make(chan progress, 10)
		s := w.connect(version, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				got <- progress{r.Params.ProgressToken, r.Params.Message}
			},
		})
		params := &mcp.CallToolParams{Name: "steps", Arguments: args{"n": 5, "text": "mine"}}
		params.SetProgressToken("the token")
		_, err := s.CallTool(t.Context(), params)
		check(t, err)
		for range 5 {
			if p := <-got; p != (progress{"the token", "mine"}) {
				t.Errorf("progress: %v", p)
			}
		}
	})
}

func TestClientIsAsked(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		w := newWorld(t, gateway.Upstream{Command: []string{program, "-lacks", "server/discover"}}).start()
		s := w.connect(version, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": r.Params.Message + "!"}}, nil
			},
		})
		w.want(s, "ask", args{"text": "who"}, "accept who!")
		w.want(s, "roots", nil, "file:///root")
	})
}

func TestCancelledCallIsCancelledUpstream(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		w := newWorld(t, gateway.Upstream{}).start()
		s := w.connect(version, nil)
		w.want(s, "echo", args{"text": "up"}, "up")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "sleep", Arguments: args{"ms": 60_000}})
		if err == nil {
			t.Fatal("the call was answered")
		}
		w.eventually("the tool is cancelled", func() bool { return strings.Contains(w.logged.String(), "text=cancelled") })
		w.want(s, "echo", args{"text": "up"}, "up")
	})
}

func TestEachSessionHasItsProcess(t *testing.T) {
	w := newWorld(t, gateway.Upstream{}).start()
	a, b := w.connect("2025-11-25", nil), w.connect("2025-11-25", nil)
	pidA, err := call(a, "pid", nil)
	check(t, err)
	pidB, err := call(b, "pid", nil)
	check(t, err)
	if pidA == pidB {
		t.Error("two sessions have one process")
	}
	check(t, a.Close())
	w.eventually("the process ends with its session", func() bool { return !alive(pidA) })
	if !alive(pidB) {
		t.Error("the process of the other session has ended too")
	}
}
