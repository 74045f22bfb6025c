package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/identity"
	"reprise/internal/park"
	"reprise/store/memstore"
)

const liveToken = "a-token-for-tests-0123456789"

// liveServer starts the real server over a memory store and returns its URL. It parks readers, as reprise serve does.
func liveServer(t *testing.T) string {
	t.Helper()
	url, _ := liveServerOn(t, memstore.New(nil))
	return url
}

// liveServerOn is liveServer over a store, which it closes at the end of the test.
func liveServerOn(t *testing.T, store reprise.Store) (string, *reprise.Log) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	keys := reprise.NewKeyset()
	log, err := reprise.Open(context.Background(), store, &reprise.Options{Keys: keys})
	ok(err)
	host, err := execution.Open(context.Background(), log, &execution.Options{
		Dir: t.TempDir(), StateDir: t.TempDir(), Drive: interpreter.Drive,
	})
	ok(err)
	known, err := identity.NewToken(liveToken)
	ok(err)
	lot, err := park.New(nil)
	if park.Supported {
		ok(err)
	}
	server, err := api.New(log, host, identity.NewGate(keys, known, nil), &api.Options{Parking: lot})
	ok(err)
	web := httptest.NewUnstartedServer(nil)
	web.Config = api.NewHTTPServer(server)
	web.Start()
	if lot != nil {
		go func() { _ = lot.Serve(web.Config) }() // it ends with the other
	}
	t.Cleanup(func() {
		server.Drain()
		web.Close()
		ok(lot.Close())
		ok(host.Close())
		ok(log.Close())
		ok(store.Close())
	})
	return web.URL, log
}

// cutter dials connections of which the first ones end after some bytes were read.
type cutter struct {
	after int64 // bytes; negative: never
	cuts  int32 // how many connections
	dials atomic.Int32
	read  atomic.Int64 // from the first connection
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n := c.dials.Add(1)
	left := int64(1) << 62
	if c.after >= 0 && n <= c.cuts {
		left = c.after
	}
	return &cutConn{Conn: conn, cutter: c, left: left, first: n == 1}, nil
}

type cutConn struct {
	net.Conn
	cutter *cutter
	left   int64
	first  bool
}

var errCut = errors.New("cut")

func (c *cutConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.Conn.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if c.first {
		c.cutter.read.Add(int64(n))
	}
	return n, err
}

// liveClient returns a Client whose connections c cuts, each of one request.
func liveClient(t *testing.T, url string, c *cutter) *client.Client {
	t.Helper()
	return liveClientWith(t, url, c, client.CompressRemote)
}

func liveClientWith(t *testing.T, url string, c *cutter, compression client.Compression) *client.Client {
	t.Helper()
	transport := &http.Transport{DialContext: c.dial, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	made, err := client.New(&client.Options{
		URL:         url,
		Token:       liveToken,
		HTTPClient:  &http.Client{Transport: transport},
		MinWait:     time.Millisecond,
		Compression: compression,
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// The test of the issue, against the real server and a real command: the answer to the
// start is cut at every byte, once or three times in a row, and each event is found exactly once.
func TestCutTheRealServerAtEveryByte(t *testing.T) {
	t.Parallel()
	cutTheRealServer(t, client.CompressNever, int64(len("\r\n0\r\n\r\n")))
}

// The same with events in gzip, which ends with a sync flush, an empty last block and the sums of the member.
func TestCutTheRealServerInGzip(t *testing.T) {
	t.Parallel()
	cutTheRealServer(t, client.CompressAlways, 40)
}

// cutTheRealServer cuts a run at every byte but those of the trailer, which is not read after the end event.
func cutTheRealServer(t *testing.T, compression client.Compression, trailer int64) {
	url := liveServer(t)
	liveClient := func(t *testing.T, url string, c *cutter) *client.Client {
		return liveClientWith(t, url, c, compression)
	}
	run := client.StartRequest{ID: "recorded", Command: `printf 'one\ntwo\000\377'; sleep 0.1; printf 'no newline' >&2; exit 3`}
	want, err := collect(liveClient(t, url, &cutter{after: -1}).Run(t.Context(), run, nil))
	if err != nil || len(want) < 4 || want[len(want)-1].End == nil {
		t.Fatalf("%s, %v", seqs(want), err)
	}
	uncut := &cutter{after: -1}
	again, err := collect(liveClient(t, url, uncut).Run(t.Context(), run, nil))
	if diff := cmp.Diff(want, again); err != nil || diff != "" {
		t.Fatalf("attached to what has ended: %v\n%s", err, diff)
	}
	size := uncut.read.Load() - trailer
	step := int64(1)
	if race {
		step = 7
	}
	// All at once: each waits for the time that the server asks for.
	var followers sync.WaitGroup
	for n := range size {
		if n%step != 0 {
			continue
		}
		cut := &cutter{after: n, cuts: 1 + int32(n/step%2)*2}
		c := liveClient(t, url, cut)
		followers.Go(func() {
			// With time for the first answer: hundreds share the processors.
			got, err := collect(c.Run(t.Context(), run, &client.FollowOptions{GiveUp: 10 * time.Minute}))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%d cuts after %d bytes: %v (-want +got):\n%s", cut.cuts, n, err, diff)
			}
			if cut.dials.Load() < 2 {
				t.Errorf("not cut after %d bytes", n)
			}
		})
	}
	followers.Wait()
	list, err := liveClient(t, url, &cutter{after: -1}).List(t.Context(), client.ExecutionQuery{})
	if err != nil || len(list.Executions) != 1 {
		t.Errorf("%d executions, %v: the command must have run once", len(list.Executions), err)
	}
}

// A megabyte of noise through connections that break every few thousand bytes, byte for byte.
func TestOutputOfTheRealServer(t *testing.T) {
	t.Parallel()
	c := liveClient(t, liveServer(t), &cutter{after: 150_000, cuts: 6})
	seed := fmt.Sprintf("head -c 1000000 /dev/urandom > %[1]s; cat %[1]s", t.TempDir()+"/noise")
	e, err := c.Start(t.Context(), client.StartRequest{Command: seed})
	if err != nil {
		t.Fatal(err)
	}
	following := c.Output(t.Context(), e.ID, "stdout", &client.OutputOptions{Follow: true})
	defer following.Close()
	followed, err := io.ReadAll(following)
	if err != nil {
		t.Fatal(err)
	}
	var events []byte
	for event, err := range c.Follow(t.Context(), e.ID, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == "stdout" {
			events = append(events, event.Data...)
		}
	}
	_, path, _ := strings.Cut(seed, "> ")
	path, _, _ = strings.Cut(path, ";")
	direct, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(followed, direct) || !bytes.Equal(events, direct) {
		t.Errorf("followed %d bytes, events with %d, the command wrote %d", len(followed), len(events), len(direct))
	}
}

// Every call against the real server, so that both read the contract alike.
func TestCallsOfTheRealServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := liveClient(t, liveServer(t), &cutter{after: -1})
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := c.Start(ctx, client.StartRequest{
		Argv: []string{"cat"}, StdinOpen: true, Session: "s", Labels: map[string]string{"a": "b"},
		Timeout: client.Duration(time.Minute),
	})
	ok(err)
	stdin := c.StdinWriter(ctx, e.ID, 0)
	_, err = io.WriteString(stdin, "hello ")
	ok(err)
	_, err = c.WriteStdin(ctx, e.ID, 0, []byte("hello world"), false)
	ok(err)
	if _, err := c.WriteStdin(ctx, e.ID, 99, nil, false); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("an offset that is too far: %v", err)
	}
	_, err = c.WriteStdin(ctx, e.ID, 11, nil, true)
	ok(err)
	got, err := collect(c.Follow(ctx, e.ID, nil))
	ok(err)
	if end := got[len(got)-1].End; got[0].Started == nil || got[0].Started.ID != e.ID || end == nil ||
		*end.ExitCode != 0 || end.Bytes.Stdout != 11 {
		t.Errorf("%+v", got)
	}
	ok(stdin.Close()) // it has ended already
	shown, err := c.Show(ctx, e.ID)
	ok(err)
	if shown.Outcome != client.Exited || shown.Session != "s" || shown.Ended.IsZero() || shown.Usage == nil {
		t.Errorf("%+v", shown)
	}
	if err := c.Signal(ctx, e.ID, "INT"); !errors.Is(err, reprise.ErrEnded) {
		t.Errorf("a signal after the end: %v", err)
	}
	ok(c.Cancel(ctx, e.ID))
	page, err := c.Page(ctx, e.ID, &client.PageOptions{Limit: 1})
	ok(err)
	if len(page.Events) != 1 || !page.HasMore || page.Events[0].Cursor != got[0].Cursor ||
		!cmp.Equal(page.Events[0].Started, got[0].Started) {
		t.Errorf("%+v", page)
	}
	sessions, err := c.ListSessions(ctx, 0, "")
	ok(err)
	session, err := c.ShowSession(ctx, "s")
	ok(err)
	if len(sessions.Sessions) != 1 || session.Count != 1 || len(session.Executions) != 1 {
		t.Errorf("%+v, %+v", sessions, session)
	}
	ticket, err := c.Ticket(ctx, client.TicketRequest{Execution: e.ID, TTL: client.Duration(time.Minute)})
	ok(err)
	if ticket.Ticket == "" || ticket.Expires.Before(time.Now()) {
		t.Errorf("%+v", ticket)
	}
	ok(c.RemoveSession(ctx, "s"))
	ok(c.Remove(ctx, e.ID))
	if _, err := c.Show(ctx, e.ID); !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, reprise.ErrExpired) {
		t.Errorf("after the removal: %v", err)
	}
}

func TestStreamsOfTheRealServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const name = "notes/2026.11_a-b"
	c := liveClient(t, liveServer(t), &cutter{after: -1})
	p := c.Producer(name)
	if _, err := p.Publish(ctx, client.NewEvent{}); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("before there is a stream: %v", err)
	}
	if _, err := c.CreateStream(ctx, name, client.StreamConfig{
		Retention: client.Retention{MaxEvents: 2},
		Labels:    map[string]string{"a": "b"},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateStream(ctx, name, client.StreamConfig{}); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("another configuration: %v", err)
	}
	value := "d"
	changed, err := c.ConfigureStream(ctx, name, client.Change{
		Retention: client.RetentionChange{MaxAge: new(client.Duration(time.Hour))},
		Labels:    map[string]*string{"a": nil, "c": &value},
	})
	if err != nil || changed.Retention.MaxEvents != 2 || time.Duration(changed.Retention.MaxAge) != time.Hour ||
		changed.Labels["c"] != value || len(changed.Labels) != 1 {
		t.Fatalf("%+v, %v", changed, err)
	}
	changed, err = c.ConfigureStream(ctx, name, client.Change{
		Retention: client.RetentionChange{MaxAge: new(client.Duration(0))},
	})
	if err != nil || changed.Retention.MaxEvents != 2 || time.Duration(changed.Retention.MaxAge) == time.Hour {
		t.Fatalf("back to the default age: %+v, %v", changed, err)
	}
	if _, err := c.Configure(ctx, name, client.Change{}); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("an execution of the name: %v", err)
	}
	first, err := p.Publish(ctx, client.NewEvent{Type: "note", Data: json.RawMessage("{\n\"n\": 1}")})
	if err != nil || first.First != 1 || first.Cursor == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	for range 3 {
		if _, err := p.PublishBytes(ctx, "blob", []byte{0, 255}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.End(ctx, "completed", json.RawMessage("[1]")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(ctx, client.NewEvent{}); !errors.Is(err, reprise.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	got, err := collect(c.FollowStream(ctx, name, &client.FollowOptions{After: first.Cursor}))
	if err != nil || seqs(got) != "0 gap,4 blob,5 end" || got[0].Gap.Missed != 2 || string(got[1].Data) != "\x00\xff" ||
		string(got[2].End.Data) != "[1]" {
		t.Errorf("%s, %v", seqs(got), err)
	}
	if got, err := collect(c.FollowStream(ctx, name, &client.FollowOptions{After: "tail"})); err != nil ||
		len(got) != 0 {
		t.Errorf("from the tail of what has ended: %s, %v", seqs(got), err)
	}
	if _, err := collect(
		c.FollowStream(ctx, name, &client.FollowOptions{After: first.Cursor, OnGap: client.GapFail}),
	); err == nil {
		t.Error("went on over a gap")
	} else if gap, ok := errors.AsType[*client.GapError](err); !ok || gap.Gap.Missed != 2 {
		t.Error(err)
	}
	list, err := c.ListStreams(ctx, 0, "")
	shown, showErr := c.ShowStream(ctx, name)
	if err != nil || showErr != nil || len(list.Streams) != 1 || shown.Outcome != "completed" || shown.Events != 2 {
		t.Errorf("%+v, %v, %+v, %v", list, err, shown, showErr)
	}
	for i, after := range []string{"earliest", ""} {
		if trimmed, err := c.TrimStream(ctx, name, after); err != nil || trimmed.Events != []uint64{2, 0}[i] {
			t.Errorf("trimmed after %q: %+v, %v", after, trimmed, err)
		}
	}
	if err := c.RemoveStream(ctx, name); err != nil {
		t.Error(err)
	}
}
