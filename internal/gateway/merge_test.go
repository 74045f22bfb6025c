package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/gateway"
)

// merged is an upstream of two members that are the test's program.
func merged() gateway.Upstream {
	return gateway.Upstream{Merge: []gateway.Upstream{
		{Name: "one", Command: []string{program}},
		{Name: "two", Command: []string{program}},
	}}
}

// receive waits for something to come.
func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("nothing has come")
	}
	return v
}

// toolNames lists the names of tools that have a prefix.
func toolNames(t *testing.T, s *mcp.ClientSession, prefix string) (names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for tool, err := range s.Tools(ctx, nil) {
		check(t, err)
		if strings.HasPrefix(tool.Name, prefix) {
			names = append(names, tool.Name)
		}
	}
	return names
}

func TestMergedUpstreamsHaveTheirToolsPromptsAndResources(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, merged()).start()
		s := f.connect(version, nil)
		ones, twos := toolNames(t, s, "one_"), toolNames(t, s, "two_")
		if len(ones) < 10 || len(ones) != len(twos) || !slices.Contains(ones, "one_echo") {
			t.Errorf("the tools are %v and %v", ones, twos)
		}
		f.want(s, "one_echo", args{"text": "hello"}, "hello")
		first, err := call(s, "one_pid", nil)
		check(t, err)
		second, err := call(s, "two_pid", nil)
		check(t, err)
		if first == second {
			t.Errorf("both members are the process %s", first)
		}
		f.wantError(s, "echo", nil, "begins with the name of no upstream")
		f.wantError(s, "three_echo", nil, "begins with the name of no upstream")
		resources, err := s.ListResources(context.Background(), nil)
		check(t, err)
		if len(resources.Resources) != 2 || resources.Resources[1].URI != "two+test://a" {
			t.Errorf("the resources are %+v", resources.Resources)
		}
		read, err := s.ReadResource(context.Background(), &mcp.ReadResourceParams{URI: "two+test://a"})
		check(t, err)
		if len(read.Contents) != 1 || read.Contents[0].URI != "two+test://a" || read.Contents[0].Text != "A" {
			t.Errorf("the resource is %+v", read.Contents)
		}
		if _, err := s.ReadResource(context.Background(), &mcp.ReadResourceParams{URI: "test://a"}); err == nil {
			t.Error("a resource without a prefix is read")
		}
	})
}

func TestMergedUpstreamsTellWhatChanges(t *testing.T) {
	f := newFixture(t, merged()).start()
	changed, updated := make(chan bool, 100), make(chan string, 100)
	s := f.connect("2025-11-25", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- true },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			updated <- r.Params.URI
		},
	})
	for _, member := range []string{"one", "two"} {
		f.want(s, member+"_grow", nil, "grown")
		receive(t, changed)
		if grown := toolNames(t, s, member+"_grown"); len(grown) != 1 {
			t.Errorf("%s has grown %v", member, grown)
		}
		uri := member + "+test://a"
		check(t, s.Subscribe(context.Background(), &mcp.SubscribeParams{URI: uri}))
		f.want(s, member+"_touch", args{"text": "test://a"}, "touched")
		if got := receive(t, updated); got != uri {
			t.Errorf("%s was updated, and not %s", got, uri)
		}
	}
}

func TestMergedUpstreamsAskTheClient(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, merged()).start()
		s := f.connect(version, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
			},
		})
		first, err := call(s, "one_ask", args{"text": "who?"})
		check(t, err)
		second, err := call(s, "two_ask", args{"text": "who?"})
		check(t, err)
		if first != second || !strings.Contains(first, "Ada") {
			t.Errorf("the answers are %q and %q", first, second)
		}
	})
}

// replaceable is a member whose program can be replaced by a shell command.
func replaceable(t *testing.T, name, command string) (m gateway.Upstream, replace func(command string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	replace = func(command string) {
		t.Helper()
		check(t, os.WriteFile(file+".new", []byte("#!/bin/sh\n"+command+"\n"), 0o700))
		check(t, os.Rename(file+".new", file))
	}
	replace(command)
	return gateway.Upstream{Name: name, Command: []string{file}}, replace
}

// TestMergedUpstreamEndsAlone: a member that ends answers the call under way with an error, is listed as it was while
// it is away, and comes back; the other one notices nothing.
func TestMergedUpstreamEndsAlone(t *testing.T) {
	up := merged()
	one, replace := replaceable(t, "one", "exec "+program)
	up.Merge[0] = one
	f := newFixture(t, up).start()
	changed := make(chan bool, 100)
	s := f.connect("2025-11-25", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- true },
	})
	other, err := call(s, "two_pid", nil)
	check(t, err)
	before := toolNames(t, s, "one_")
	replace("exit 1")
	_, err = call(s, "one_crash", nil)
	if code := codeOf(err); code != "upstream_lost" {
		t.Errorf("the call under way is answered with %v (%q)", err, code)
	}
	if after := toolNames(t, s, "one_"); len(after) == 0 || !slices.Equal(after, before) {
		t.Errorf("its tools are %v and were %v", after, before)
	}
	_, err = call(s, "one_echo", args{"text": "away"})
	if code := codeOf(err); code != "upstream_unavailable" {
		t.Errorf("a call of a member that is away is answered with %v (%q)", err, code)
	}
	f.want(s, "two_pid", nil, other)
	replace("exec " + program)
	receive(t, changed)
	f.want(s, "one_echo", args{"text": "again"}, "again")
	f.want(s, "two_pid", nil, other)
}

// TestMergedUpstreamComesLate: a member that cannot be started at first is left out, and listed when it can.
func TestMergedUpstreamComesLate(t *testing.T) {
	up := merged()
	two, replace := replaceable(t, "two", "exit 1")
	up.Merge[1] = two
	f := newFixture(t, up).start()
	changed := make(chan bool, 100)
	s := f.connect("2025-11-25", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- true },
	})
	f.want(s, "one_echo", args{"text": "hello"}, "hello")
	if names := toolNames(t, s, "two_"); len(names) > 0 {
		t.Errorf("the member that is away has %v", names)
	}
	_, err := call(s, "two_echo", nil)
	if code := codeOf(err); code != "upstream_unavailable" {
		t.Errorf("a call of a member that is away is answered with %v (%q)", err, code)
	}
	replace("exec " + program)
	receive(t, changed)
	f.eventually("its tools are listed", func() bool { return len(toolNames(t, s, "two_")) > 0 })
	f.want(s, "two_echo", args{"text": "late"}, "late")
}

// TestMergedUpstreamThatHangsIsNotWaitedFor: one that answers nothing at all keeps the client waiting for half of the
// time for a start, and no longer.
func TestMergedUpstreamThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	up := merged()
	up.Merge[1].Command, up.StartTimeout = []string{"sleep", "1000"}, 10*time.Second
	f := newFixture(t, up).start()
	s := f.connect("2025-11-25", nil)
	f.want(s, "one_echo", args{"text": "hello"}, "hello")
	if names := toolNames(t, s, "two_"); len(names) > 0 {
		t.Errorf("the member that hangs has %v", names)
	}
}

// TestMergedUpstreamsAreRestoredAfterARestart: the session of a gateway that has ended goes on in the next one, with
// its subscription to a resource of one member.
func TestMergedUpstreamsAreRestoredAfterARestart(t *testing.T) {
	f := newFixture(t, merged()).start()
	resp := f.request("", initialize("2025-11-25"))
	session := resp.Header.Get("Mcp-Session-Id")
	resp.Body.Close()
	send := func(message, part string) {
		t.Helper()
		if _, body := f.post(session, message); !strings.Contains(body, part) {
			t.Fatalf("the answer to %s is %s", message, body)
		}
	}
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "")
	send(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"two+test://a"}}`, `"result":{}`)
	f.stop()
	f.start()
	stream := f.listen(session)
	touch := `{"name":"two_touch","arguments":{"text":"test://a"}}`
	send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":`+touch+`}`, "touched")
	stream.want(`"uri":"two+test://a"`)
}

func TestMergedUpstreamsThatAllFailRefuseTheClient(t *testing.T) {
	f := newFixture(t, gateway.Upstream{Merge: []gateway.Upstream{
		{Name: "one", Command: []string{"false"}}, {Name: "two", URL: "http://127.0.0.1:1/mcp"},
	}}).start()
	if _, body := f.post("", initialize("2025-11-25")); !strings.Contains(body, "none of the upstreams came up") {
		t.Errorf("initialize is answered with %s", body)
	}
}
