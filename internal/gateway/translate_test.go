package gateway_test

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots and logging

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/gateway"
)

// TestSessionIsServedByUpstreamWithoutSessions serves a client that has one.
func TestSessionIsServedByUpstreamWithoutSessions(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(map[bool]string{false: "own", true: "shared"}[shared], func(t *testing.T) {
			up := gateway.Upstream{Command: []string{program, "-lacks", "initialize"}, Shared: shared}
			f := newFixture(t, up).start()
			updated, grown := make(chan string, 10), make(chan bool, 10)
			s := f.connect("2025-11-25", &mcp.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
					updated <- r.Params.URI
				},
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { grown <- true },
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					content := map[string]any{"name": r.Params.Message + "!"}
					return &mcp.ElicitResult{Action: "accept", Content: content}, nil
				},
			})
			if name := s.InitializeResult().ServerInfo.Name; name != "upstream" {
				t.Errorf("the server is %q", name)
			}
			f.want(s, "echo", args{"text": "x"}, "x")
			f.want(s, "rounds", args{"text": "who"}, "accept who!")
			check(t, s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
			check(t, s.Ping(t.Context(), nil))
			check(t, s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://a"}))
			f.eventually("the client is told of what it has subscribed to", func() bool {
				f.want(s, "touch", args{"text": "test://a"}, "touched")
				select {
				case <-updated:
					return true
				case <-time.After(50 * time.Millisecond):
					return false
				}
			})
			f.eventually("the client is told of new tools", func() bool {
				f.want(s, "grow", nil, "grown")
				select {
				case <-grown:
					return true
				case <-time.After(50 * time.Millisecond):
					return false
				}
			})
			check(t, s.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "test://a"}))
			f.wantError(s, "crash", nil, "the upstream ended")
			f.want(s, "count", nil, "1")
		})
	}
}
