package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/gateway"
)

// search returns the names of the tools that search_tools finds, and how many it has left out.
func search(t *testing.T, s *mcp.ClientSession, query string) (names []string, leftOut int) {
	t.Helper()
	text, err := call(s, "search_tools", args{"query": query})
	check(t, err)
	var found struct {
		Tools   []map[string]json.RawMessage `json:"tools"`
		LeftOut int                          `json:"left_out"`
	}
	check(t, json.Unmarshal([]byte(text), &found))
	for _, tool := range found.Tools {
		if tool["inputSchema"] == nil {
			t.Errorf("%s has no schema", tool["name"])
		}
		names = append(names, strings.Trim(string(tool["name"]), `"`))
	}
	return names, found.LeftOut
}

// TestToolsBeyondTheBudget: the tools of a member that do not fit are in no list. They are found and called, unless
// they are not offered.
func TestToolsBeyondTheBudget(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		up := merged()
		up.Tools, up.MaxToolsBytes = []string{"one/echo", "two/*", "!two/pid"}, 1500
		f := newFixture(t, up).start()
		s := f.connect(version, nil)
		if names := toolNames(t, s, ""); !slices.Equal(names, []string{"one_echo", "search_tools", "call_tool"}) {
			t.Errorf("the tools are %v", names)
		}
		if names, _ := search(t, s, "ECHO nothing"); !slices.Equal(names, []string{"one_echo", "two_echo"}) {
			t.Errorf("found are %v", names)
		}
		if names, leftOut := search(t, s, ""); len(names) < 2 || leftOut == 0 || slices.Contains(names, "one_pid") {
			t.Errorf("found are %v and %d more", names, leftOut)
		}
		if names, _ := search(t, s, "pid"); len(names) != 0 {
			t.Errorf("found are %v, which are not offered", names)
		}
		for name, in := range map[string]args{
			"two_echo":  {"text": "hello"},
			"call_tool": {"name": "two_echo", "arguments": args{"text": "hello"}},
		} {
			f.want(s, name, in, "hello")
		}
		for _, name := range []string{"two_pid", "one_pid", "call_tool", ""} {
			f.wantError(s, "call_tool", args{"name": name}, "is not offered")
		}
	})
}

// TestToolsWithinTheBudget: a list that fits is as the upstream gives it, and so is one without a bound.
func TestToolsWithinTheBudget(t *testing.T) {
	f := newFixture(t, merged()).start()
	want := toolNames(t, f.connect("2025-11-25", nil), "")
	up := merged()
	up.MaxToolsBytes = 1 << 20
	f = newFixture(t, up).start()
	if names := toolNames(t, f.connect("2025-11-25", nil), ""); !slices.Equal(names, want) {
		t.Errorf("the tools are %v, want %v", names, want)
	}
}

// TestOnlyUpstreamBeyondTheBudget: its tools are left out all together, and counted in the description of the search.
func TestOnlyUpstreamBeyondTheBudget(t *testing.T) {
	f := newFixture(t, gateway.Upstream{}).start()
	all := len(toolNames(t, f.connect("2025-11-25", nil), ""))
	f = newFixture(t, gateway.Upstream{MaxToolsBytes: 1}).start()
	list, err := f.connect("2025-11-25", nil).ListTools(context.Background(), nil)
	check(t, err)
	if len(list.Tools) != 2 || !strings.Contains(list.Tools[0].Description, fmt.Sprintf("upstream (%d)", all)) {
		t.Errorf("the tools are %v, want a search in %d", list.Tools, all)
	}
}

// TestToolThatIsCalledByNameAsks: the answers to what it asks, for which clients of 2026-07-28 call again, reach it.
func TestToolThatIsCalledByNameAsks(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		up := merged()
		up.MaxToolsBytes = 1
		f := newFixture(t, up).start()
		s := f.connect(version, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "ann"}}, nil
			},
		})
		f.want(s, "call_tool", args{"name": "one_ask", "arguments": args{"text": "who"}}, "accept ann")
	})
}
