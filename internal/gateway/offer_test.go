package gateway_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise/internal/gateway"
)

// TestToolsThatAreNotOffered: they are in no list, and a call of one does not reach the upstream.
func TestToolsThatAreNotOffered(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		up := merged()
		up.Tools = []string{"one/*", "two/e*", "!one/p?d", "!echo*x"}
		f := newFixture(t, up).start()
		s := f.connect(version, nil)
		names := toolNames(t, s, "")
		if !slices.Contains(names, "one_echo") || !slices.Contains(names, "two_echo") ||
			slices.Contains(names, "one_pid") || slices.Contains(names, "two_pid") {
			t.Errorf("the tools are %v", names)
		}
		f.want(s, "one_echo", args{"text": "hello"}, "hello")
		for _, tool := range []string{"one_pid", "two_pid", "pid"} {
			f.wantError(s, tool, nil, "is not offered")
		}
	})
}

// TestCallsNameOneTool: a call with several names cannot call a tool that is not offered.
func TestCallsNameOneTool(t *testing.T) {
	f := newFixture(t, gateway.Upstream{Tools: []string{"!pid", "!upstream/a*"}}).start()
	resp := f.request("", initialize("2025-11-25"))
	session := resp.Header.Get("Mcp-Session-Id")
	check(t, resp.Body.Close())
	f.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for names, want := range map[string]string{
		`"name":"pid"`:                    "is not offered",
		`"name":"p\u0069d"`:               "is not offered",
		`"name":"a/b/c"`:                  "is not offered",
		`"name":"echo","name":"pid"`:      "is not offered",
		`"name":"pid","name":"echo"`:      "hi",
		`"name":"echo","Name":"pid"`:      "hi",
		`"NAME":"pid","name":"echo"`:      "hi",
		`"Name":"pid"`:                    "is not offered",
		`"name":["pid"]`:                  "",
		`"name":"echo","\u006eAme":"pid"`: "hi",
	} {
		_, got := f.post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+names+
			`,"arguments":{"text":"hi"}}}`)
		if refused := strings.Contains(got, `"error"`); !strings.Contains(got, want) || refused != (want != "hi") {
			t.Errorf("%s: %s", names, got)
		}
	}
}

// TestCallsAreCountedByMember: metrics name the member of merged upstreams, and nothing that a client makes up.
func TestCallsAreCountedByMember(t *testing.T) {
	f := newFixture(t, merged())
	var mu sync.Mutex
	counted := map[string]int{}
	f.hooks = &gateway.Hooks{Called: func(upstream string, result gateway.CallResult, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		counted[upstream+" "+string(result)]++
	}}
	s := f.start().connect("2025-11-25", nil)
	f.want(s, "one_echo", args{"text": "hello"}, "hello")
	f.want(s, "two_echo", args{"text": "hello"}, "hello")
	f.wantError(s, "three_echo", nil, "begins with the name of no upstream")
	if _, err := s.ListPrompts(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for upstream, want := range map[string]int{"upstream/one answered": 1, "upstream/two answered": 1} {
		if counted[upstream] != want {
			t.Errorf("%s: %v", upstream, counted)
		}
	}
	for upstream := range counted {
		if strings.Contains(upstream, "three") {
			t.Errorf("counted for a name that a client has made up: %v", counted)
		}
	}
}

// TestConnectionsAreCountedByMember: one that ends is counted down, and up again when it is back; at the end all are 0.
func TestConnectionsAreCountedByMember(t *testing.T) {
	f := newFixture(t, merged())
	var mu sync.Mutex
	open, lost := map[string]int{}, map[string]int{}
	f.hooks = &gateway.Hooks{
		Connected: func(upstream string) {
			mu.Lock()
			defer mu.Unlock()
			open[upstream]++
		},
		Disconnected: func(upstream string, l bool) {
			mu.Lock()
			defer mu.Unlock()
			open[upstream]--
			if l {
				lost[upstream]++
			}
		},
	}
	is := func(now, ended map[string]int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return maps.Equal(open, now) && maps.Equal(lost, ended)
		}
	}
	s := f.start().connect("2025-11-25", nil)
	each := map[string]int{"upstream": 1, "upstream/one": 1, "upstream/two": 1}
	f.eventually("all are there", is(each, map[string]int{}))
	f.wantError(s, "one_crash", nil, "the upstream ended")
	f.eventually("it is back", is(each, map[string]int{"upstream/one": 1}))
	f.stop()
	none := map[string]int{"upstream": 0, "upstream/one": 0, "upstream/two": 0}
	f.eventually("none is there", is(none, map[string]int{"upstream/one": 1}))
}
