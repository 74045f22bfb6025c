package gateway_test

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots and logging

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/gateway"
)

func TestCallIsAnsweredByUpstream(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, gateway.Upstream{}).start()
		s := f.connect(version, nil)
		f.want(s, "echo", args{"text": "hi"}, "hi")
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

func TestProgressGoesToTheCallThatAskedForIt(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, gateway.Upstream{}).start()
		type progress struct {
			token any
			text  string
		}
		got := make(chan progress, 10)
		s := f.connect(version, &mcp.ClientOptions{
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

func TestQuestionOfUpstreamReachesClient(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", "server/discover"}}).start()
		s := f.connect(version, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": r.Params.Message + "!"}}, nil
			},
		})
		f.want(s, "ask", args{"text": "who"}, "accept who!")
		f.want(s, "roots", nil, "file:///root")
	})
}

// TestSimultaneousQuestionsAreAllAnswered: the second question may come before or after the first one was handed over.
func TestSimultaneousQuestionsAreAllAnswered(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", "server/discover"}}).start()
		s := f.connect(version, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": r.Params.Message + "!"}}, nil
			},
		})
		for range 10 {
			f.want(s, "asktwice", args{"text": "who"}, "accept who0!, accept who1!")
		}
	})
}

func TestCancelledCallIsCancelledUpstream(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, gateway.Upstream{}).start()
		s := f.connect(version, nil)
		f.want(s, "echo", args{"text": "up"}, "up")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answered := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "sleep", Arguments: args{"ms": 600_000}})
			answered <- err
		}()
		f.eventually("the tool runs", func() bool { return f.slept() > 0 })
		cancel()
		if err := <-answered; err == nil {
			t.Fatal("the call was answered")
		}
		f.eventually("the tool is cancelled",
			func() bool { return strings.Contains(f.logged.String(), "text=cancelled") })
		f.want(s, "echo", args{"text": "up"}, "up")
	})
}

func TestEachSessionHasItsProcess(t *testing.T) {
	f := newFixture(t, gateway.Upstream{}).start()
	a, b := f.connect("2025-11-25", nil), f.connect("2025-11-25", nil)
	pidA, err := call(a, "pid", nil)
	check(t, err)
	pidB, err := call(b, "pid", nil)
	check(t, err)
	if pidA == pidB {
		t.Error("two sessions have one process")
	}
	check(t, a.Close())
	f.eventually("the process ends with its session", func() bool { return !alive(pidA) })
	if !alive(pidB) {
		t.Error("the process of the other session has ended too")
	}
}
