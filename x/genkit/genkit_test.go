package genkit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/core"
	"github.com/firebase/genkit/go/core/x/streaming"
	sdk "github.com/firebase/genkit/go/genkit"

	"reprise"
	"reprise/store/logstore"
	"reprise/store/memstore"
	"reprise/x/genkit"
)

// start returns a Manager over memory, and its Log.
func start(t *testing.T, opts *reprise.Options) (*genkit.Manager, *reprise.Log) {
	t.Helper()
	log, err := reprise.Open(t.Context(), memstore.New(nil), opts)
	ok(t, err)
	m, err := genkit.Open(t.Context(), log)
	ok(t, err)
	t.Cleanup(func() { ok(t, log.Close()) })
	return m, log
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantStatus(t *testing.T, what string, err error, want core.StatusName) {
	t.Helper()
	if public, is := errors.AsType[*core.UserFacingError](err); !is || public.Status != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// write opens a stream and writes the numbers up to n.
func write(t *testing.T, m streaming.StreamManager, id string, n int) streaming.StreamInput {
	t.Helper()
	in, err := m.Open(t.Context(), id)
	ok(t, err)
	for i := range n {
		ok(t, in.Write(t.Context(), json.RawMessage(fmt.Sprint(i))))
	}
	return in
}

// read reads a stream to its last event, and how many chunks it has. They must be the numbers from 0 on.
func read(t *testing.T, from <-chan streaming.StreamEvent) (n int, last streaming.StreamEvent) {
	t.Helper()
	for e := range from {
		if e.Type != streaming.StreamEventChunk {
			last = e
			continue
		}
		if string(e.Chunk) != fmt.Sprint(n) {
			t.Fatalf("chunk %d is %s", n, e.Chunk)
		}
		n++
	}
	return n, last
}

func subscribe(t *testing.T, m streaming.StreamManager, id string) <-chan streaming.StreamEvent {
	t.Helper()
	events, unsubscribe, err := m.Subscribe(t.Context(), id)
	ok(t, err)
	t.Cleanup(unsubscribe)
	return events
}

// TestSlowReader: one that takes nothing until the stream is done gets every chunk. The manager in memory of Genkit
// drops what does not fit its channel, and the last event with it.
func TestSlowReader(t *testing.T) {
	const all = 1000
	missed := func(m streaming.StreamManager) bool {
		in, err := m.Open(t.Context(), "a")
		ok(t, err)
		events := subscribe(t, m, "a")
		for i := range all {
			ok(t, in.Write(t.Context(), json.RawMessage(fmt.Sprint(i))))
		}
		ok(t, in.Done(t.Context(), json.RawMessage(`"out"`)))
		n, last := read(t, events)
		return n != all || last.Type != streaming.StreamEventDone || string(last.Output) != `"out"`
	}
	m, _ := start(t, nil)
	if missed(m) {
		t.Error("chunks are missing")
	}
	theirs := streaming.NewInMemoryStreamManager()
	defer theirs.Close()
	if !missed(theirs) {
		t.Error("this test does not find what Genkit's manager loses")
	}
}

// TestReplay of a long stream, by several readers, while it is written and after its end.
func TestReplay(t *testing.T) {
	const all = 10_000
	m, _ := start(t, nil)
	in := write(t, m, "a", all)
	early := subscribe(t, m, "a")
	ok(t, in.Error(t.Context(), core.NewPublicError(core.ABORTED, "it is over", nil)))
	for _, events := range []<-chan streaming.StreamEvent{early, subscribe(t, m, "a"), subscribe(t, m, "a")} {
		n, last := read(t, events)
		if n != all || last.Type != streaming.StreamEventError {
			t.Fatalf("%d chunks, then %+v", n, last)
		}
		wantStatus(t, "the end", last.Err, core.ABORTED)
	}
}

// TestNothingLostIsDone: a stream is never done for a reader who has not all of it.
func TestNothingLostIsDone(t *testing.T) {
	m, _ := start(t, nil)
	in := write(t, m, "a", 3)
	if err := in.Write(t.Context(), json.RawMessage(`"`+strings.Repeat("x", 2<<20)+`"`)); err == nil {
		t.Error("a chunk of 2 MiB is taken")
	}
	ok(t, in.Done(t.Context(), json.RawMessage(`1`)))
	n, last := read(t, subscribe(t, m, "a"))
	if n != 3 || last.Type != streaming.StreamEventError {
		t.Errorf("%d chunks, then %+v", n, last)
	}
	wantStatus(t, "behind a chunk that was not written", last.Err, core.DATA_LOSS)

	m, _ = start(t, &reprise.Options{Retention: reprise.Retention{MaxEvents: 100}})
	in, err := m.Open(t.Context(), "b")
	ok(t, err)
	events := subscribe(t, m, "b")
	for i := range 1000 {
		ok(t, in.Write(t.Context(), json.RawMessage(fmt.Sprint(i))))
	}
	ok(t, in.Done(t.Context(), json.RawMessage(`1`)))
	_, last = read(t, events)
	wantStatus(t, "a reader that is behind", last.Err, core.DATA_LOSS)
	_, _, err = m.Subscribe(t.Context(), "b")
	wantStatus(t, "a late reader", err, core.DATA_LOSS)
}

// TestProcessHasEnded: the streams that it left open end as lost for the next one.
func TestProcessHasEnded(t *testing.T) {
	m, log := start(t, nil)
	write(t, m, "a", 3)
	ok(t, write(t, m, "b", 1).Done(t.Context(), json.RawMessage(`1`)))
	next, err := genkit.Open(t.Context(), log)
	ok(t, err)
	n, last := read(t, subscribe(t, next, "a"))
	if n != 3 {
		t.Errorf("%d chunks", n)
	}
	wantStatus(t, "the end", last.Err, core.UNAVAILABLE)
	if _, last := read(t, subscribe(t, next, "b")); last.Type != streaming.StreamEventDone {
		t.Errorf("a stream that was done: %+v", last)
	}
}

// TestRefusals are the errors that Genkit knows.
func TestRefusals(t *testing.T) {
	m, log := start(t, nil)
	in := write(t, m, "a", 1)
	_, err := m.Open(t.Context(), "a")
	wantStatus(t, "opened again", err, core.ALREADY_EXISTS)
	_, err = m.Open(t.Context(), "\x00")
	wantStatus(t, "an invalid name", err, core.INVALID_ARGUMENT)
	for _, id := range []string{"b", "\x00", "", strings.Repeat("x", 5000)} {
		_, _, err = m.Subscribe(t.Context(), id)
		wantStatus(t, "no such stream", err, core.NOT_FOUND)
	}
	s, err := log.Stream(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "genkit:a"})
	ok(t, err)
	_, err = s.End(t.Context(), "cancelled", reprise.Event{Data: []byte("by hand")})
	ok(t, err)
	wantStatus(t, "written after the end", in.Write(t.Context(), json.RawMessage(`1`)), core.FAILED_PRECONDITION)
	_, last := read(t, subscribe(t, m, "a"))
	wantStatus(t, "ended by hand", last.Err, core.UNKNOWN)
}

// TestUnsubscribe closes the channel, and so does the end of the context.
func TestUnsubscribe(t *testing.T) {
	m, _ := start(t, nil)
	write(t, m, "a", 3)
	events, unsubscribe, err := m.Subscribe(t.Context(), "a")
	ok(t, err)
	<-events
	unsubscribe()
	unsubscribe()
	for range events { // which is closed
	}
	ctx, cancel := context.WithCancel(t.Context())
	events, _, err = m.Subscribe(ctx, "a")
	ok(t, err)
	cancel()
	for range events {
	}
}

// TestServerIsKilled: a program with Genkit's handler, a client that is cut, and then the program killed in the middle
// of an answer. The client gets each chunk once, and then an error.
func TestServerIsKilled(t *testing.T) {
	if dir := os.Getenv("GENKIT_TEST_DIR"); dir != "" {
		serve(t, dir)
		return
	}
	dir := t.TempDir()
	start := func() (url string, kill func()) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestServerIsKilled$")
		cmd.Env = append(os.Environ(), "GENKIT_TEST_DIR="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		ok(t, err)
		ok(t, cmd.Start())
		kill = func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		t.Cleanup(kill)
		line, err := bufio.NewReader(out).ReadString('\n')
		ok(t, err)
		return strings.TrimSpace(line), kill
	}
	url, kill := start()
	id, got, last := follow(t, url, "", 10)
	if id == "" || got != 10 || last != "" {
		t.Fatalf("stream %q: %d chunks, then %q", id, got, last)
	}
	if _, got, last = follow(t, url, id, 30); got != 30 || last != "" { // the flow goes on without the first client
		t.Fatalf("back: %d chunks, then %q", got, last)
	}
	kill()
	url, _ = start()
	_, got, last = follow(t, url, id, 1<<30)
	if got < 30 || !strings.Contains(last, "UNAVAILABLE") {
		t.Errorf("after the kill: %d chunks, then %q", got, last)
	}
}

// serve runs a flow that counts, with durable streams in dir.
func serve(t *testing.T, dir string) {
	store, err := logstore.Open(t.Context(), dir, nil)
	ok(t, err)
	log, err := reprise.Open(t.Context(), store, nil)
	ok(t, err)
	m, err := genkit.Open(t.Context(), log)
	ok(t, err)
	flow := sdk.DefineStreamingFlow(sdk.Init(t.Context()), "count",
		func(ctx context.Context, _ int, send func(context.Context, int) error) (string, error) {
			for i := 0; ; i++ { // until it is killed
				if err := send(ctx, i); err != nil {
					return "", err
				}
			}
		})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	fmt.Printf("http://%s/\n", l.Addr())
	t.Fatal(http.Serve(l, sdk.Handler(flow, sdk.WithStreamManager(m)))) // until it is killed
}

// follow reads chunks of the flow, or of its stream, and checks that each comes once. It cuts the connection behind
// most of them.
func follow(t *testing.T, url, id string, most int) (stream string, n int, last string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"data":1}`))
	ok(t, err)
	r.Header.Set("Accept", "text/event-stream")
	if id != "" {
		r.Header.Set("X-Genkit-Stream-Id", id)
	}
	res, err := http.DefaultClient.Do(r)
	ok(t, err)
	defer res.Body.Close()
	stream = res.Header.Get("X-Genkit-Stream-Id")
	for lines := bufio.NewScanner(res.Body); n < most && lines.Scan(); {
		line := lines.Text()
		switch {
		case line == "":
		case line == fmt.Sprintf(`data: {"message":%d}`, n):
			n++
		case last == "":
			last = line
		default:
			t.Fatalf("%q comes behind %q", line, last)
		}
	}
	return stream, n, last
}
