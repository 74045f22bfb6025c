package execution_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/quota"
)

// TestFollowersOnOtherReplicas: a run with KillOnDisconnect goes on while somebody follows it
// anywhere, and no longer.
func TestFollowersOnOtherReplicas(t *testing.T) {
	t.Parallel()
	request := execution.Request{Command: "echo up; exec sleep 100", KillOnDisconnect: true}
	const (
		grace  = 3 * time.Second // much longer than it takes that the owner is told
		longer = grace + grace/4
	)
	for _, tt := range []struct {
		name string
		// test lets followers come and go, and returns when nobody follows any more.
		test func(t *testing.T, id string, list []*node)
	}{
		{"nobody yet, there and then gone", func(t *testing.T, id string, list []*node) {
			stays(t, list[0].Host, id, longer)
			release := list[1].Follow(tenant, id)
			release()
			release()
		}},
		{"two after each other", func(t *testing.T, id string, list []*node) {
			first := list[1].Follow(tenant, id)
			<-time.After(grace)
			second := list[2].Follow(tenant, id)
			<-time.After(grace / 3)
			first()
			stays(t, list[0].Host, id, longer)
			second()
		}},
		{"here and there", func(t *testing.T, id string, list []*node) {
			here, there, again := list[0].Follow(tenant, id), list[1].Follow(tenant, id), list[1].Follow(tenant, id)
			<-time.After(grace / 3)
			here()
			again()
			stays(t, list[0].Host, id, longer)
			there()
		}},
		{"and their replica dies", func(t *testing.T, id string, list []*node) {
			list[1].Follow(tenant, id)
			stays(t, list[0].Host, id, longer)
			list[1].store.cut.Store(true)
			t.Cleanup(func() { list[1].store.cut.Store(false) })
			list[0].buries(t, list[1].member.Name())
		}},
		{"and their replica leaves", func(t *testing.T, id string, list []*node) {
			list[1].Follow(tenant, id)
			stays(t, list[0].Host, id, longer)
			if err := list[1].member.Leave(within(t)); err != nil {
				t.Fatal(err)
			}
		}},
		{"and their replica stands still", func(t *testing.T, id string, list []*node) {
			name := list[1].member.Name()
			release := list[1].Follow(tenant, id)
			stays(t, list[0].Host, id, grace)
			list[1].store.cut.Store(true)
			list[0].buries(t, name)
			list[1].store.cut.Store(false)
			release()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			list := nodes(t, 3, execution.Options{DisconnectGrace: grace})
			x := start(t, list[0].Host, request)
			await(t, list[1].Host, x.ID, "up")
			tt.test(t, x.ID, list)
			wantOutcome(t, finish(t, list[2].Host, x.ID), execution.Cancelled, 0, "TERM")
		})
	}
}

// stays checks that an execution runs for a while.
func stays(t *testing.T, h *execution.Host, id string, d time.Duration) {
	t.Helper()
	<-time.After(d) // real processes, real time
	if got := status(t, h, id); got != execution.StatusRunning {
		t.Fatalf("it is %s", got)
	}
}

// TestFollowersAreAskedForByStarter: before a follower counts, here and on another replica, the caller is asked, who
// gets the session and the principal of the execution.
func TestFollowersAreAskedForByStarter(t *testing.T) {
	list := nodes(t, 2, execution.Options{DisconnectGrace: time.Nanosecond})
	who := &quota.Holder{Account: quota.Account{Tenant: tenant, Principal: "starter"}}
	x, _, err := list[0].StartFor(within(t), who,
		execution.Request{Command: "echo up; exec sleep 100", Session: "s", KillOnDisconnect: true})
	if err != nil {
		t.Fatal(err)
	}
	await(t, list[0].Host, x.ID, "up")
	for i, nd := range list {
		asked := 0
		nd.FollowIf(within(t), tenant, x.ID, func(session, starter string) bool {
			if asked++; session != "s" || starter != "starter" {
				t.Errorf("replica %d: session %q, started by %q", i, session, starter)
			}
			return false
		})()
		if asked != 1 {
			t.Errorf("replica %d: asked %d times", i, asked)
		}
	}
	if got := status(t, list[0].Host, x.ID); got != execution.StatusRunning {
		t.Errorf("it is %s", got)
	}
	list[1].FollowIf(within(t), tenant, x.ID, func(string, string) bool { return true })()
	wantOutcome(t, finish(t, list[0].Host, x.ID), execution.Cancelled, 0, "TERM")
}

// TestFollowersDoNotCountUnasked: without KillOnDisconnect following changes nothing.
func TestFollowersDoNotCountUnasked(t *testing.T) {
	list := nodes(t, 2, execution.Options{DisconnectGrace: time.Millisecond})
	x := start(t, list[0].Host, execution.Request{Command: "echo up; exec sleep 100"})
	await(t, list[1].Host, x.ID, "up")
	list[1].Follow(tenant, x.ID)()
	list[1].Follow(tenant, "nobody")()
	stays(t, list[0].Host, x.ID, 200*time.Millisecond)
}

// TestStdinFromAnotherReplica writes more than one piece, in small reads and large ones, to a command that is slow to
// read.
func TestStdinFromAnotherReplica(t *testing.T) {
	t.Parallel() // it waits most of the time
	list := nodes(t, 2, execution.Options{})
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB: four pieces
	for _, tt := range []struct {
		name   string
		offset int64
		reader io.Reader
		want   int
	}{
		{"at an offset", 0, bytes.NewReader(data), len(data)},
		{"at the end", -1, bytes.NewReader(data), len(data)},
		{"in small reads", -1, iotest.OneByteReader(bytes.NewReader(data[:100])), 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x := start(t, list[0].Host, execution.Request{Command: "sleep 4; cat | wc -c", StdinOpen: true})
			state, err := list[1].WriteStdin(within(t), tenant, x.ID,
				execution.StdinWrite{Offset: tt.offset, Data: tt.reader, EOF: true})
			if err != nil || state.Offset != int64(tt.want) || state.Open {
				t.Errorf("%+v, %v", state, err)
			}
			finish(t, list[1].Host, x.ID)
			got := strings.TrimSpace(string(output(t, list[1].Host, x.ID, execution.Stdout)))
			if got != strconv.Itoa(tt.want) {
				t.Errorf("the command has read %s bytes, want %d", got, tt.want)
			}
		})
	}
}

// TestStdinThatIsNotRead: a write to a command that reads nothing ends with its context, says how
// much was taken, and goes on from there.
func TestStdinThatIsNotRead(t *testing.T) {
	list := nodes(t, 2, execution.Options{})
	x := start(t, list[0].Host, execution.Request{Command: readsOneByte + "exec sleep 1000", StdinOpen: true})
	data := bytes.Repeat([]byte("x"), 300<<10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	written := make(chan error, 1)
	go func() {
		_, err := list[1].WriteStdin(ctx, tenant, x.ID, execution.StdinWrite{Data: bytes.NewReader(data)})
		written <- err
	}()
	await(t, list[1].Host, x.ID, "got one")
	cancel()
	if err := <-written; !errors.Is(err, context.Canceled) {
		t.Errorf("a command that does not read: %v", err)
	}
	// The turn is free again: the owner was told that nobody waits any more.
	state, err := list[0].WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Offset: 0})
	if err != nil || state.Offset == 0 || state.Offset >= int64(len(data)) {
		t.Errorf("afterwards: %+v, %v", state, err)
	}
}

// TestStdinFromTwoReplicas: of writes at the end that come at the same time each is given whole and in one piece, or
// is refused where the other came in between. What the owner says was taken is what the command has read.
func TestStdinFromTwoReplicas(t *testing.T) {
	list := nodes(t, 3, execution.Options{})
	x := start(t, list[0].Host, execution.Request{Command: "cat", StdinOpen: true})
	var writers sync.WaitGroup
	var refused atomic.Int64
	for _, letter := range "ab" {
		writers.Go(func() {
			data := strings.Repeat(string(letter), 600<<10) // three pieces
			_, err := list[1+letter-'a'].WriteStdin(within(t), tenant, x.ID,
				execution.StdinWrite{Offset: -1, Data: strings.NewReader(data)})
			if errors.Is(err, reprise.ErrConflict) {
				refused.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	state, err := list[1].WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Offset: -1, EOF: true})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, list[1].Host, x.ID)
	got := string(output(t, list[2].Host, x.ID, execution.Stdout))
	if int64(len(got)) != state.Offset {
		t.Errorf("%d bytes were taken, %d read", state.Offset, len(got))
	}
	whole := 0
	for _, letter := range "ab" {
		if strings.Count(got, string(letter)) == 600<<10 {
			whole++
		}
	}
	if whole+int(refused.Load()) < 2 {
		t.Errorf("%d writes are whole, %d were refused", whole, refused.Load())
	}
}
