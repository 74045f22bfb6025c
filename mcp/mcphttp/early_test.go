package mcphttp_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

// streams is how many streams of calls there are.
func (w *fixture) streams() int {
	page, err := w.log.List(w.Context(), reprise.ListQuery{Namespace: "mcp:", Limit: 1000})
	check(w, err)
	return len(page.Streams)
}

// TestQuickResponseTakesNoStream: a response that is there at once is JSON and takes no stream; whatever else happens,
// there is one.
func TestQuickResponseTakesNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{opts: mcphttp.Options{Quick: 5 * time.Millisecond}})
		c := w.begin("2025-11-25")
		for range 3 {
			c.ids++
			res := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"bytes":3}}}`)
			if text := c.text(res); res.Header.Get("Content-Type") != "application/json" ||
				!strings.Contains(text, `"xxx"`) {
				t.Errorf("%s", text)
			}
		}
		if n := w.streams(); n != 0 {
			t.Errorf("%d streams were made for quick calls", n)
		}
		s := c.tool("steps", toolInput{N: 2}) // quick, and not silent
		s.prime()
		primed := s.lastID
		s.want(progress(1, 4)...)
		s.want(`"done"`)
		s.ends()
		s = c.stream(c.get(primed))
		s.want(progress(1, 4)...)
		s.want(`"done"`)
		s.ends()
		s = c.tool("steps", toolInput{Gate: "g"}) // silent, and not quick
		s.prime()
		w.tools.release("g")
		s.want(`"done"`)
		s.ends()
		s = c.tool("poll", toolInput{Gate: "h"})
		s.prime()
		s.ends()
		w.tools.release("h")
		s = c.stream(c.get(s.lastID))
		s.want(`"polled"`)
		s.ends()
		s = c.tool("ask", toolInput{})
		s.prime()
		c.accepted(`{"jsonrpc":"2.0","id":` + idOf(s.next()) + `,"result":{"roots":[{"uri":"file:///there"}]}}`)
		s.want("file:///there")
		s.ends()

		if n := w.streams(); n != 4 {
			t.Errorf("%d streams were made, want 4", n)
		}
	})
}

// TestKeptAnswerIsSentAtOnce: a kept response that is complete when it begins is sent as a whole, with its length, and
// not in pieces.
func TestKeptAnswerIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{opts: mcphttp.Options{Quick: -1}})
		c := w.begin("2025-11-25")
		res := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"bytes":3}}}`)
		length, text := res.ContentLength, c.text(res)
		if res.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(text, `"xxx"`) ||
			length != int64(len(text)) {
			t.Errorf("a response of %d bytes: %q", length, text)
		}
		if n := w.streams(); n != 1 {
			t.Errorf("%d streams were made, want 1", n)
		}
	})
}

// callOfSteps is a call that waits for the gate g.
const callOfSteps = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"steps","arguments":{"gate":"g"}}}`

// slowToMake is a Store that waits for made before it makes the stream of a call, and then fails if it is told to.
type slowToMake struct {
	reprise.Store
	made  chan struct{}
	fails atomic.Bool
	// twice says that the Store makes no stream together with its first batch.
	twice bool
	// commits counts what was stored of calls.
	commits atomic.Int64
}

// make waits for what makes a stream.
func (s *slowToMake) make(key reprise.StreamKey) error {
	if key.Namespace() != "mcp:" {
		return nil
	}
	<-s.made
	if s.fails.Load() {
		return reprise.ErrUnavailable
	}
	s.commits.Add(1)
	return nil
}

func (s *slowToMake) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if err := s.make(info.Key); err != nil {
		return reprise.StreamInfo{}, err
	}
	return s.Store.Create(ctx, info)
}

func (s *slowToMake) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	if s.twice {
		return reprise.StreamInfo{}, errors.ErrUnsupported
	}
	if err := s.make(info.Key); err != nil {
		return reprise.StreamInfo{}, err
	}
	return s.Store.(reprise.CreateAppender).CreateAppend(ctx, info, first)
}

func (s *slowToMake) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	for i := range reqs {
		if reqs[i].Key.Namespace() == "mcp:" {
			s.commits.Add(1)
		}
	}
	return s.Store.Append(ctx, reqs)
}

// TestCallIsOneCommit: a call whose answer is there before its stream is made is kept by one commit, and by two where
// the Store cannot make a stream together with its first batch, or the answer comes later. The client sees no
// difference.
func TestCallIsOneCommit(t *testing.T) {
	for _, twice := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &slowToMake{Store: memstore.New(nil), made: make(chan struct{}), twice: twice}
			close(store.made)
			defer store.Close()
			w := newFixture(t, setup{store: store})
			c := w.begin("2025-11-25")
			call := func(tool string, in toolInput, want ...string) int64 {
				before := store.commits.Load()
				s := c.tool(tool, in)
				s.prime()
				primed := s.lastID
				if in.Gate != "" {
					w.tools.release(in.Gate)
				}
				for range 2 {
					s.want(want...)
					s.ends()
					s = c.stream(c.get(primed))
				}
				s.drop()
				synctest.Wait()
				return store.commits.Load() - before
			}
			want := int64(1)
			if twice {
				want = 2
			}
			if got := call("steps", toolInput{}, `"done"`); got != want {
				t.Errorf("an answer at once: %d commits, want %d", got, want)
			}
			if got := call("steps", toolInput{Gate: "g"}, `"done"`); got != 2 {
				t.Errorf("an answer later: %d commits, want 2", got)
			}
			if got := call("echo", toolInput{Bytes: 3 << 20}, strings.Repeat("x", 3<<20)); got < 2 {
				t.Errorf("an answer that is too long to go with its stream: %d commits", got)
			}
		})
	}
}

// TestCallRunsWhileItsStreamIsMade: the tool does not wait for the commit. Nothing is shown before the stream is kept,
// and then all of it, once.
func TestCallRunsWhileItsStreamIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowToMake{Store: memstore.New(nil), made: make(chan struct{})}
		defer store.Close()
		w := newFixture(t, setup{store: store})
		c := w.begin("2025-11-25")
		began := make(chan *stream, 1)
		go func() { began <- c.tool("steps", toolInput{N: 2}) }()
		synctest.Wait()
		if n := w.tools.called("steps"); n != 1 {
			t.Errorf("the tool was called %d times before its stream was there", n)
		}
		select {
		case <-began:
			t.Error("the client was answered before the stream was there")
		default:
		}
		close(store.made)
		s := <-began
		s.prime()
		primed := s.lastID
		for range 2 {
			s.want(progress(1, 4)...)
			s.want(`"done"`)
			s.ends()
			s = c.stream(c.get(primed))
		}
	})
}

// TestCallWhoseStreamCannotBeMade: the tool has been called, so that nothing may invite the client to send the call
// again, as the status 503 does.
func TestCallWhoseStreamCannotBeMade(t *testing.T) {
	for what, quick := range map[string]time.Duration{"always kept": -1, "kept if slow": 5 * time.Millisecond} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowToMake{Store: memstore.New(nil), made: make(chan struct{})}
				defer store.Close()
				w := newFixture(t, setup{store: store, opts: mcphttp.Options{Quick: quick}})
				c := w.begin("2025-11-25")
				store.fails.Store(true)
				go func() {
					<-w.tools.began
					close(store.made)
				}()
				res := c.post(callOfSteps)
				text := c.text(res)
				if res.StatusCode != 200 || !strings.Contains(text, `"id":7,"error"`) ||
					!strings.Contains(text, "answer_lost") {
					t.Errorf("%d %s", res.StatusCode, text)
				}
				if n := w.tools.called("steps"); n != 1 {
					t.Errorf("the tool was called %d times", n)
				}
				if gate := <-w.tools.cancelled; gate != "g" {
					t.Errorf("%s was cancelled", gate)
				}
				store.fails.Store(false)
				s := c.tool("steps", toolInput{N: 1}) // the session goes on
				s.prime()
				s.want(progress(1, 2)...)
				s.want(`"done"`)
			})
		})
	}
}

// TestKilledBetweenCallAndItsStream: a process dies after a tool was called and before the stream of the call is kept.
// The client has seen no event id, the next process finds no call that it would have to answer, and calls nothing
// again.
func TestKilledBetweenCallAndItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		defer inner.Close()
		keys := reprise.NewKeyset()
		store := &slowToMake{Store: inner, made: make(chan struct{})}
		first := newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}})
		c := first.begin("2025-11-25")
		ctx, gone := context.WithCancel(t.Context())
		req := c.request("POST", callOfSteps)
		failed := make(chan error, 1)
		go func() {
			res, err := first.http.Do(req.WithContext(ctx))
			if err == nil {
				res.Body.Close()
			}
			failed <- err
		}()
		<-first.tools.began
		gone() // what the client sees of the death
		if err := <-failed; err == nil {
			t.Error("the client was answered")
		}
		// What the first process had in memory is not looked at: the second has the store alone.
		second := newFixture(t, setup{store: inner, log: reprise.Options{Keys: keys}})
		again := c.with(second)
		synctest.Wait()
		if n := second.streams(); n != 0 {
			t.Errorf("%d streams of calls are kept", n)
		}
		s := again.tool("steps", toolInput{N: 1})
		s.prime()
		s.want(progress(1, 2)...)
		s.want(`"done"`)
		if n := second.tools.called("steps"); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
		store.fails.Store(true)
		close(store.made)
		<-first.tools.cancelled
	})
}
