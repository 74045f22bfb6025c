//go:build unix

package gateway_test

import (
	"context"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// freeze stops the process of a member of merged upstreams until thaw is called.
func freeze(t *testing.T, s *mcp.ClientSession, tool string) (thaw func()) {
	t.Helper()
	text, err := call(s, tool, nil)
	check(t, err)
	pid, err := strconv.Atoi(text)
	check(t, err)
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	frozen := true
	thaw = func() {
		if frozen {
			frozen = false
			check(t, syscall.Kill(pid, syscall.SIGCONT))
		}
	}
	t.Cleanup(thaw)
	return thaw
}

// TestMergedListsAreKept: what a member has listed is given without asking it again, until it says that it has changed.
// Were it asked, each list would wait a second for this one.
func TestMergedListsAreKept(t *testing.T) {
	f := newFixture(t, merged()).start()
	s := f.connect("2025-11-25", nil)
	before := toolNames(t, s, "")
	freeze(t, s, "two_pid")
	began := time.Now()
	const lists = 60
	for range lists {
		if got := toolNames(t, s, ""); !slices.Equal(got, before) {
			t.Fatalf("the tools are %v and were %v", got, before)
		}
	}
	if took := time.Since(began); took > lists/2*time.Second {
		t.Errorf("%d lists took %v", lists, took)
	}
}

// TestMergedUpstreamThatFreezesIsListedAsItWas: a member that has announced a change and does not answer holds no list
// up for long, and when it answers the client is told once more.
func TestMergedUpstreamThatFreezesIsListedAsItWas(t *testing.T) {
	t.Parallel()
	f := newFixture(t, merged()).start()
	changed := make(chan bool, 100)
	s := f.connect("2025-11-25", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- true },
	})
	before := toolNames(t, s, "two_")
	f.want(s, "two_grow", nil, "grown")
	receive(t, changed)
	thaw := freeze(t, s, "two_pid")
	began := time.Now()
	const lists = 2
	for range lists {
		if got := toolNames(t, s, "two_"); !slices.Equal(got, before) {
			t.Fatalf("the tools of the frozen member are %v and were %v", got, before)
		}
		if got := toolNames(t, s, "one_"); len(got) != len(before) {
			t.Fatalf("the tools of the other member are %v", got)
		}
	}
	// Each of the two lists in a round waits a second; in the past it was ten.
	if took := time.Since(began); took > 2*lists*5*time.Second {
		t.Errorf("%d lists took %v", 2*lists, took)
	}
	thaw()
	receive(t, changed)
	if got := toolNames(t, s, "two_grown"); len(got) != 1 {
		t.Errorf("the member that goes on has grown %v", got)
	}
}
