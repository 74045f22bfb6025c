package sseclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise/internal/ssefollow"
	"reprise/sse"
	"reprise/sse/sseclient"
)

// numbered is a source of ten events, which resumes after Last-Event-ID and answers 204 after the last one.
const numbered = 10

func answerNumbered(w http.ResponseWriter, r *http.Request, cut int) {
	first := 1
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		_, _ = fmt.Sscan(id, &first)
		first++
	}
	if first > numbered {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var text strings.Builder
	for i := first; i <= numbered; i++ {
		fmt.Fprintf(&text, "id: %d\r\nevent: note\ndata: %d\ndata: more\r\r: beat\n", i, i)
	}
	if cut < 0 || cut >= text.Len() {
		stream(w, text.String())
		return
	}
	stream(w, text.String()[:cut])
	abort()
}

// However an answer is cut, at every byte, each event of a source that resumes is yielded once.
func TestCutAtEveryByte(t *testing.T) {
	var want []string
	for i := 1; i <= numbered; i++ {
		want = append(want, fmt.Sprintf("%d\nmore", i))
	}
	for cut := range 500 {
		synctest.Test(t, func(t *testing.T) {
			s := &source{answer: func(i int, w http.ResponseWriter, r *http.Request) {
				if i >= 3 {
					cut = -1
				}
				answerNumbered(w, r, cut)
			}}
			got, err := collect(t.Context(), s.open(t, sseclient.Options{}))
			if diff := cmp.Diff(want, data(got)); err != nil || diff != "" {
				t.Fatalf("cut after %d bytes: %v (-want +got):\n%s", cut, err, diff)
			}
		})
	}
}

// A connection is made again with the id of the last event that was handled, which an empty id resets and a block that
// was cut off leaves alone.
func TestLastEventID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(i int, w http.ResponseWriter, _ *http.Request) {
			switch i {
			case 0:
				stream(w, "data: no id\n\n")
			case 1:
				stream(w, "id: a\ndata: 1\n\ndata: 2\n\nid: b\ndata: cut off\n")
				abort()
			case 2:
				stream(w, "data: 3\n\nid: c\n\n")
			case 3:
				stream(w, "id\ndata: reset\n\n")
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		}}
		c := s.open(t, sseclient.Options{LastEventID: "given"})
		got, err := collect(t.Context(), c)
		if err != nil || c.LastEventID() != "" {
			t.Errorf("%v, last id %q", err, c.LastEventID())
		}
		if diff := cmp.Diff([]string{"given", "given", "a", "c", ""}, s.lastIDs()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		want := []sse.Event{
			{Type: "message", Data: []byte("no id"), LastEventID: "given"},
			{ID: "a", Type: "message", Data: []byte("1"), LastEventID: "a"},
			{Type: "message", Data: []byte("2"), LastEventID: "a"},
			{Type: "message", Data: []byte("3"), LastEventID: "a"},
			{Type: "message", Data: []byte("reset")},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A further loop goes on after the last handled event: the one in whose body the loop was left comes again.
func TestBrokenLoopGetsItsEventAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(_ int, w http.ResponseWriter, r *http.Request) { answerNumbered(w, r, -1) }}
		c := s.open(t, sseclient.Options{})
		for event, err := range c.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if event.ID == "4" {
				break
			}
		}
		if got, err := collect(t.Context(), c); err != nil || len(got) != 7 || got[0].ID != "4" {
			t.Errorf("%q, %v", data(got), err)
		}
	})
}

// The wait is at least what the source asks for, by a field or a header, and the random part grows with each failure.
func TestWaitsAsLongAsSourceAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var drops []sseclient.Drop
		s := &source{answer: func(i int, w http.ResponseWriter, _ *http.Request) {
			switch i {
			case 0, 1:
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusServiceUnavailable)
			case 2, 3:
				w.WriteHeader(http.StatusBadGateway)
			case 4:
				stream(w, "retry: 3000\ndata: 1\n\n")
			case 5, 6:
				abort()
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		}}
		_, err := collect(t.Context(), s.open(t, sseclient.Options{
			MinWait: time.Second, MaxWait: 2 * time.Second, OnDrop: func(d sseclient.Drop) { drops = append(drops, d) },
		}))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			tries    int
			min, max time.Duration
		}{
			{1, 7, 8},
			{2, 7, 9},
			{3, 0, 2},
			{4, 0, 2}, // no more than MaxWait
			{1, 3, 4}, // after a block
			{2, 3, 5},
			{3, 3, 5},
		} {
			d := drops[i]
			if d.Wait < want.min*time.Second || d.Wait > want.max*time.Second || d.Tries != want.tries {
				t.Errorf("failure %d: waits %v as number %d, want %d to %d s as number %d",
					i, d.Wait, d.Tries, want.min, want.max, want.tries)
			}
		}
		if len(drops) != 7 || !errors.Is(drops[4].Err, sseclient.ErrDropped) {
			t.Errorf("%d drops: %+v", len(drops), drops)
		}
	})
}

// What no later try can change ends the loop at once.
func TestGivesUpAtOnce(t *testing.T) {
	isStatus := func(err error) bool {
		_, ok := errors.AsType[*sseclient.StatusError](err)
		return ok
	}
	wraps := func(want error) func(error) bool {
		return func(err error) bool { return errors.Is(err, want) }
	}
	text := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { stream(w, text) }
	}
	redirect := func(status int, to string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Location", to)
			w.WriteHeader(status)
		}
	}
	page := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html") }
	noType := func(w http.ResponseWriter) { w.Header()["Content-Type"] = nil }
	kilo := "data: " + strings.Repeat("x", 500) + "\n"
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter)
		ok     func(error) bool
	}{
		"404": {func(w http.ResponseWriter) { http.Error(w, "gone fishing", 404) }, func(err error) bool {
			status, ok := errors.AsType[*sseclient.StatusError](err)
			return ok && status.Status == 404 && string(status.Body) == "gone fishing\n"
		}},
		"401":                           {func(w http.ResponseWriter) { w.WriteHeader(401) }, isStatus},
		"201":                           {func(w http.ResponseWriter) { w.WriteHeader(201) }, isStatus},
		"a page":                        {page, wraps(sseclient.ErrContentType)},
		"no content type":               {noType, wraps(sseclient.ErrContentType)},
		"a redirect to nowhere":         {redirect(301, ""), wraps(sseclient.ErrRedirect)},
		"a redirect to a file":          {redirect(302, "file:///etc/passwd"), wraps(sseclient.ErrRedirect)},
		"redirects without end":         {redirect(307, "/again"), wraps(sseclient.ErrRedirect)},
		"a line that is too long":       {text("data: " + strings.Repeat("x", 2000)), wraps(sse.ErrTooLong)},
		"an event that is too long":     {text(kilo + kilo + kilo), wraps(sse.ErrTooLong)},
		"an id that no header can hold": {text("id: \x01\ndata: 1\n\n"), wraps(sseclient.ErrLastEventID)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{answer: func(_ int, w http.ResponseWriter, _ *http.Request) { tt.answer(w) }}
				drops := 0
				_, err := collect(t.Context(), s.open(t, sseclient.Options{
					MaxBytes: 1024, OnDrop: func(sseclient.Drop) { drops++ },
				}))
				want := 0
				if errors.Is(err, sseclient.ErrLastEventID) {
					want = 1 // the id counts when its connection has ended
				}
				if !tt.ok(err) || drops != want {
					t.Errorf("after %d drops: %v", drops, err)
				}
			})
		})
	}
}

// GiveUp bounds the time of failures in a row, and the error is the last one.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }}
		begin := time.Now()
		_, err := collect(t.Context(), s.open(t, sseclient.Options{MinWait: time.Second, GiveUp: time.Minute}))
		took := time.Since(begin)
		if _, ok := errors.AsType[*sseclient.StatusError](err); !ok || took > time.Minute || took < 20*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		_, err = collect(t.Context(), s.open(t, sseclient.Options{GiveUp: -1}))
		if _, ok := errors.AsType[*sseclient.StatusError](err); !ok {
			t.Error(err)
		}
	})
}

// A connection without a byte is given up; any byte ends a silence.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var drops []error
		s := &source{answer: func(i int, w http.ResponseWriter, r *http.Request) {
			if i > 0 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			stream(w, "data: 1\n\n")
			for range 5 {
				time.Sleep(9 * time.Second)
				stream(w, ":")
			}
			<-r.Context().Done()
		}}
		_, err := collect(t.Context(), s.open(t, sseclient.Options{
			IdleTimeout: 10 * time.Second, MinWait: 1, OnDrop: func(d sseclient.Drop) { drops = append(drops, d.Err) },
		}))
		took := time.Since(begin).Round(time.Second)
		if err != nil || took != 55*time.Second || !errors.Is(drops[0], sseclient.ErrIdle) {
			t.Errorf("after %v: %v, %v", took, err, drops)
		}
	})
}

// A source that takes the connection and never answers is given up as a silent one is.
func TestIdleTimeoutBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(i int, w http.ResponseWriter, r *http.Request) {
			switch i {
			case 0:
				<-r.Context().Done()
			case 1:
				stream(w, "")
				<-r.Context().Done()
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		}}
		var held []bool
		onDrop := func(d sseclient.Drop) { held = append(held, errors.Is(d.Err, ssefollow.ErrHeld)) }
		_, err := collect(t.Context(), s.open(t, sseclient.Options{IdleTimeout: time.Second, OnDrop: onDrop}))
		if err != nil || !slices.Equal(held, []bool{false, true}) {
			t.Errorf("%v, %v", held, err)
		}
	})
}

// Method, headers and body go out with each request, and the client's own headers win.
func TestRequestKeepsMethodHeadersAndBody(t *testing.T) {
	for _, method := range []string{"", "POST", "REPORT"} {
		synctest.Test(t, func(t *testing.T) {
			s := &source{answer: func(i int, w http.ResponseWriter, _ *http.Request) {
				if i == 0 {
					stream(w, "data: 1\n\n")
					return
				}
				w.WriteHeader(http.StatusNoContent)
			}}
			opts := sseclient.Options{
				Method: method, Repeat: true, Header: http.Header{"x-own": {"1"}, "Accept": {"text/html"}},
			}
			if method != "" {
				opts.Body = []byte(`{"a":1}`)
			}
			if _, err := collect(t.Context(), s.open(t, opts)); err != nil || s.count() != 2 {
				t.Fatalf("%d requests, %v", s.count(), err)
			}
			for i, r := range s.requests {
				h := r.Header
				head := []string{
					r.Method, r.URL.RawQuery, h.Get("X-Own"), h.Get("Accept"), h.Get("Cache-Control"), s.bodies[i],
				}
				want := []string{"GET", "x=1", "1", "text/event-stream", "no-cache", string(opts.Body)}
				if method != "" {
					want[0] = method
				}
				if !slices.Equal(head, want) || h.Values("Last-Event-ID") != nil {
					t.Errorf("request %d: %q, want %q", i, head, want)
				}
			}
		})
	}
}

// Redirects are followed at each connection. The program's headers stay at their origin.
func TestRedirectsKeepHeadersAtTheirOrigin(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		synctest.Test(t, func(t *testing.T) {
			var hosts, tokens []string
			s := &source{answer: func(_ int, w http.ResponseWriter, r *http.Request) {
				hosts = append(hosts, r.Host)
				tokens = append(tokens, r.Header.Get("X-Token"))
				switch {
				case r.URL.Path == "/events":
					w.Header().Set("Location", "/moved")
					w.WriteHeader(status)
				case r.Host == "source.test":
					w.Header().Set("Location", "http://other.test/moved")
					w.WriteHeader(status)
				case r.Header.Get("Last-Event-ID") == "":
					stream(w, "id: 1\ndata: 1\n\n")
				default:
					w.WriteHeader(http.StatusNoContent)
				}
			}}
			got, err := collect(t.Context(), s.open(t, sseclient.Options{Header: http.Header{"x-token": {"secret"}}}))
			if err != nil || len(got) != 1 {
				t.Errorf("%d: %q, %v", status, data(got), err)
			}
			if diff := cmp.Diff([]string{"secret", "secret", "", "secret", "secret", ""}, tokens); diff != "" {
				t.Errorf("%d: tokens at %q (-want +got):\n%s", status, hosts, diff)
			}
		})
	}
}

// Restart ends a connection, and a wait, at once.
func TestRestartEndsConnectionAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(i int, w http.ResponseWriter, r *http.Request) {
			switch i {
			case 0:
				stream(w, "id: 1\ndata: 1\n\n")
				<-r.Context().Done()
			case 1:
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(503)
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		}}
		c := s.open(t, sseclient.Options{})
		c.Restart() // does nothing yet
		begin := time.Now()
		go func() {
			for range 2 {
				time.Sleep(time.Second)
				c.Restart()
			}
		}()
		_, err := collect(t.Context(), c)
		if took := time.Since(begin); err != nil || took != 2*time.Second || s.count() != 3 || s.lastIDs()[1] != "1" {
			t.Errorf("after %v and %d requests: %v", took, s.count(), err)
		}
	})
}

// A cancelled context ends a loop with its cause, wherever it is.
func TestCancelledLoopReturnsItsCause(t *testing.T) {
	why := errors.New("enough")
	for _, status := range []int{200, 503} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			s := &source{answer: func(_ int, w http.ResponseWriter, r *http.Request) {
				if status != 200 {
					w.Header().Set("Retry-After", "60")
					w.WriteHeader(status)
					return
				}
				stream(w, ":\n")
				<-r.Context().Done()
			}}
			time.AfterFunc(time.Second, func() { cancel(why) })
			if _, err := collect(ctx, s.open(t, sseclient.Options{})); !errors.Is(err, why) {
				t.Errorf("status %d: %v", status, err)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, address := range []string{"", "example.org", "ftp://example.org", "http://", "http://[", "/events"} {
		if _, err := sseclient.New(address, nil); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
	if _, err := sseclient.New("http://example.org", &sseclient.Options{Method: "A B"}); err == nil {
		t.Error("a method with a space is taken")
	}
}

// Bytes that come one by one within a long chunk are no silence, although net/http hands out none before its caller's
// buffer is full.
func TestSlowBytesAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(i int, w http.ResponseWriter, _ *http.Request) {
			if i > 0 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			text := "data: " + strings.Repeat("slow ", 4000) + "\n\n"
			fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
				len(text))
			for i := range len(text) {
				buf.WriteByte(text[i])
				if buf.Flush() != nil {
					return // it was given up
				}
				time.Sleep(3 * time.Millisecond)
			}
			buf.WriteString("\r\n0\r\n\r\n")
			buf.Flush()
		}}
		drops := 0
		got, err := collect(t.Context(), s.open(t, sseclient.Options{
			IdleTimeout: time.Second, OnDrop: func(sseclient.Drop) { drops++ },
		}))
		if err != nil || len(got) != 1 || drops != 1 { // the end of the answer
			t.Errorf("%d events after %d drops, %v", len(got), drops, err)
		}
	})
}
