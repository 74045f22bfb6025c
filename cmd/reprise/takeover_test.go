package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"reprise/client"
	"reprise/internal/datadir"
)

// knockers connect to a server all the time, each time anew, until they are stopped.
type knockers struct {
	answered atomic.Int64
	mu       sync.Mutex
	refused  []error
	stop     func()
}

func knock(t *testing.T, address string) *knockers {
	ctx, cancel := context.WithCancel(t.Context())
	k := &knockers{}
	transport := &http.Transport{DisableKeepAlives: true}
	var knocking sync.WaitGroup
	for range 4 {
		knocking.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := transport.RoundTrip(r)
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					k.answered.Add(1)
				}
				if err != nil && ctx.Err() == nil {
					k.mu.Lock()
					k.refused = append(k.refused, err)
					k.mu.Unlock()
				}
			}
		})
	}
	k.stop = func() { cancel(); knocking.Wait() }
	t.Cleanup(k.stop)
	return k
}

// takeOver starts a server that takes over from the one that runs, which must end well.
func (o *outliving) takeOver(flags ...string) {
	o.t.Helper()
	before := o.daemon
	o.flags = append([]string{"--take-over"}, flags...)
	o.start()
	o.t.Cleanup(func() { _ = before.kill() })
	if !eventually(func() bool {
		select {
		case <-before.done:
			return true
		default:
			return false
		}
	}) {
		o.t.Fatal("the server before does not end")
	}
	if before.err != nil {
		o.t.Errorf("the server before ended with %v", before.err)
	}
}

// TestTakeOver: whoever connects while a server takes over from another one is answered. The command
// goes on, and who follows it misses nothing and sees nothing twice.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	o := startOutliving(t)
	gate := filepath.Join(o.dir, "gate")
	o.run("lines", `i=0; until [ -e `+gate+` ]; do i=$((i+1)); echo $i; sleep 0.01; done; exit 5`, nil)
	type followed struct {
		output string
		end    *client.End
		err    error
	}
	result := make(chan followed, 1)
	var lines atomic.Int64
	go func() {
		var f followed
		for e, err := range o.client.Follow(t.Context(), "lines", &client.FollowOptions{OnGap: client.GapFail}) {
			if err != nil {
				f.err = err
				break
			}
			if e.Type == "stdout" {
				f.output += string(e.Data)
				lines.Add(1)
			}
			f.end = e.End
		}
		result <- f
	}()
	k := knock(t, o.listen)
	grows := func(what string, n *atomic.Int64) {
		t.Helper()
		before := n.Load()
		if !eventually(func() bool { return n.Load() >= before+20 }) {
			t.Fatalf("%s no more", what)
		}
	}
	for range 3 {
		grows("nobody is answered", &k.answered)
		grows("no lines come", &lines)
		o.takeOver()
	}
	grows("nobody is answered", &k.answered)
	grows("no lines come", &lines)
	k.stop()
	if len(k.refused) > 0 {
		t.Errorf("%d connections were not answered, the first for %v", len(k.refused), k.refused[0])
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := <-result
	if f.err != nil || f.end == nil || f.end.ExitCode == nil || *f.end.ExitCode != 5 {
		t.Fatalf("it was followed to %+v, %v", f.end, f.err)
	}
	for i, line := range strings.Fields(f.output) {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d is %s", i+1, line)
		}
	}
}

// TestTakeOverWithoutRunningServerStarts: a server with --take-over starts as usual when no server runs or the last one
// was killed. A caller that does not know the secret takes nothing over.
func TestTakeOverWithoutRunningServerStarts(t *testing.T) {
	t.Parallel()
	o := &outliving{t: t, flags: []string{"--take-over"}}
	o.open()
	if err := o.daemon.kill(); err != nil {
		t.Fatal(err)
	}
	o.start()
	for _, said := range []string{"\n", "no secret\n", strings.Repeat("x", 1000)} {
		conn, err := net.Dial("unix", filepath.Join(o.dir, "data", datadir.TakeOverFile))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(said))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("who says %.10q is given %d bytes, %v", said, n, err)
		}
		conn.Close()
	}
	if _, err := o.client.Start(t.Context(), client.StartRequest{Argv: []string{"true"}}); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(o.dir, "data", datadir.TakeOverFile)); err != nil ||
		info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if err := o.daemon.signal(unix.SIGTERM); err != nil || o.daemon.err != nil {
		t.Errorf("%v, %v", err, o.daemon.err)
	}
}
