package resumetest

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"time"
)

// Versions are the protocol versions at which a stream can be resumed, the oldest first.
var Versions = []string{"2025-03-26", "2025-06-18", "2025-11-25"}

// Target is a server to be checked. The zero value of each field but URL means its default.
type Target struct {
	// URL is the MCP endpoint.
	URL string
	// Client sends the requests. It must have no Timeout. Default: a client of its own.
	Client *http.Client
	// Header is sent with each request, such as Authorization.
	Header http.Header
	// Versions are the protocol versions to check. Default: Versions.
	Versions []string
	// Tool is the tool to be called.
	Tool Tool
	// Only limits the cases to those whose names match. Default: all.
	Only *regexp.Regexp
	// Patience is the time limit for an expected message. Default: 10 seconds.
	Patience time.Duration

	// Kept is the maximum number of messages of one call that the server keeps. Default: unknown.
	Kept int
	// Other is the Header of a different principal than that of Header. Default: none.
	Other http.Header
	// Replica is the URL of another replica of the server. Default: none.
	Replica string
	// Restart kills the server that answers at URL, as a crash would, and returns when another process that has the
	// same store answers there. Default: it cannot be done.
	Restart func(context.Context) error
	// Fault makes the server's store fail, or work again, and returns when it does. Default: it cannot be done.
	Fault func(ctx context.Context, fails bool) error
}

// Tool is the tool under test. In response to a request with a progress token it must send one notifications/progress
// for each step, with progress 1, 2, 3, ... and a pause after each, and then return any result that is not an error.
type Tool struct {
	// Name is the tool's. Default: "count".
	Name string
	// Arguments makes its arguments. Default: {"steps": steps, "delay_ms": milliseconds}.
	Arguments func(steps int, pause time.Duration) map[string]any
}

func (t Target) withDefaults() Target {
	if t.Client == nil {
		t.Client = &http.Client{Transport: &http.Transport{}}
	}
	if len(t.Versions) == 0 {
		t.Versions = Versions
	}
	if t.Tool.Name == "" {
		t.Tool.Name = "count"
	}
	if t.Tool.Arguments == nil {
		t.Tool.Arguments = func(steps int, pause time.Duration) map[string]any {
			return map[string]any{"steps": steps, "delay_ms": pause.Milliseconds()}
		}
	}
	if t.Patience == 0 {
		t.Patience = 10 * time.Second
	}
	t.Header = maps.Clone(t.Header)
	return t
}
