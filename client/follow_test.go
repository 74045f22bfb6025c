package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
	"reprise/internal/problem"
)

// script answers each request with the next response, the last one again and again.
func script(responses ...[]byte) *wire {
	return &wire{answer: func(i int, _ *http.Request) ([]byte, bool) {
		return responses[min(i, len(responses)-1)], false
	}}
}

func TestFollowGoesOnAfterFaultsThatPass(t *testing.T) {
	whole := events(text(1, "stdout", "a"), end(2))
	for name, fault := range map[string][]byte{
		"nothing":                  {},
		"garbage":                  []byte("\x16\x03\x01\x02 what is this\r\n\r\n"),
		"proxy's error page":       plain(502, "Content-Type: text/html\r\n", "<h1>Bad Gateway</h1>"),
		"proxy's login page":       plain(200, "Content-Type: text/html\r\n", "<form>"),
		"store unavailable":        problemAnswer(503, "Retry-After: 1\r\n", "store_unavailable", true),
		"too many readers":         problemAnswer(429, "", "too_many_readers", true),
		"empty stream":             events(),
		"event that is no JSON":    events("id: " + cursorAt(1, "A") + "\ndata: {\"seq\":1,\n\n"),
		"event without an id":      events("data: {\"seq\":1,\"text\":\"a\"}\n\n"),
		"event without a seq":      events("id: " + cursorAt(1, "A") + "\ndata: {\"text\":\"a\"}\n\n"),
		"event of another cursor":  events("id: " + cursorAt(2, "A") + "\ndata: {\"seq\":1,\"text\":\"a\"}\n\n"),
		"line that is too long":    events("data: " + strings.Repeat("x", 17<<20)),
		"seq left out":             events(text(1, "stdout", "a"), text(3, "stdout", "c")),
		"bare id that leaves out":  events(text(1, "stdout", "a"), "id: "+cursorAt(9, "A")+"\n\n"),
		"other epoch":              events(text(1, "stdout", "a"), frame(1, "B", "stdout", `{"seq":1,"text":"b"}`)),
		"event that was seen":      events(text(1, "stdout", "a"), text(1, "stdout", "a")),
		"response with a bad size": []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(i int, r *http.Request) ([]byte, bool) {
					switch {
					case i == 0:
						return fault, false
					case r.Header.Get("Last-Event-ID") == cursorAt(1, "A"):
						return events(end(2)), false
					}
					return whole, false
				}}
				c := w.client(t, client.Options{})
				got, err := collect(c.Follow(t.Context(), "x", nil))
				if err != nil || seqs(got) != "1 stdout,2 end" {
					t.Errorf("%s, %v", seqs(got), err)
				}
			})
		})
	}
}

func TestFollowEndsWithWhatLasts(t *testing.T) {
	for _, tt := range []struct {
		name     string
		response []byte
		want     error
		requests int
	}{
		{"unknown", problemAnswer(404, "", "not_found", false), reprise.ErrNotFound, 1},
		{"expired stream", problemAnswer(410, "", "stream_expired", false), reprise.ErrExpired, 1},
		{"foreign cursor", problemAnswer(400, "", "cursor_foreign", false), reprise.ErrCursorForeign, 1},
		{
			"foreign cursor as an event",
			events(frame(0, "A", "gap", `{"code":"cursor_foreign","earliest":"`+cursorAt(0, "A")+`"}`)),
			reprise.ErrCursorForeign, 1,
		},
		{"unauthenticated", problemAnswer(401, "", "unauthenticated", false), nil, 1},
		{"redirect", plain(307, "Location: http://elsewhere.test/\r\n", ""), client.ErrProtocol, 3},
		{"always another type", plain(200, "Content-Type: text/html\r\n", "<p>"), client.ErrProtocol, 3},
		{"always a seq left out", events(text(1, "stdout", "a"), text(3, "stdout", "c")), client.ErrProtocol, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := script(tt.response)
				c := w.client(t, client.Options{})
				_, err := collect(c.Follow(t.Context(), "x", nil))
				failure, ok := errors.AsType[*client.Error](err)
				if !ok || tt.want != nil && !errors.Is(err, tt.want) || client.Retryable(err) {
					t.Errorf("%v", err)
				}
				if ok && failure.Op != "follow execution x" {
					t.Errorf("op %q", failure.Op)
				}
				if w.count() != tt.requests {
					t.Errorf("%d requests, want %d", w.count(), tt.requests)
				}
			})
		})
	}
}

func TestFollowRequestHasPathTypesAndCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script(events(text(1, "stdout", "a")), events(end(2)))
		c := w.client(t, client.Options{})
		opts := &client.FollowOptions{Types: []string{"stdout"}}
		if got, err := collect(c.FollowStream(t.Context(), "builds/é 1", opts)); err != nil || len(got) != 2 {
			t.Fatalf("%v, %v", got, err)
		}
		first, second := w.request(t, 0), w.request(t, 1)
		if first.RequestURI != "/base/v1/streams/builds%2F%C3%A9%201/events?gap=event&types=stdout%2Cend" {
			t.Errorf("asked for %s", first.RequestURI)
		}
		for name, want := range map[string]string{
			"Accept":          "text/event-stream",
			"Authorization":   "Bearer secret",
			"Last-Event-Id":   "",
			"Accept-Encoding": "gzip",
		} {
			if got := first.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := second.Header.Get("Last-Event-ID"); got != cursorAt(1, "A") {
			t.Errorf("resumed from %q", got)
		}
	})
}

// A cursor must not get lost when a resumed stream drops before its first event.
func TestFollowKeepsItsCursorOverEmptyResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script(events(text(1, "stdout", "a")), events(), plain(502, "", ""),
			events("retry: 5\n\n", ":\n\n", "id: "), events(end(2)))
		c := w.client(t, client.Options{})
		got, err := collect(c.Follow(t.Context(), "x", nil))
		if err != nil || seqs(got) != "1 stdout,2 end" {
			t.Errorf("%s, %v", seqs(got), err)
		}
		for i := 1; i < 5; i++ {
			if id := w.request(t, i).Header.Get("Last-Event-ID"); id != cursorAt(1, "A") {
				t.Errorf("request %d resumed from %q", i, id)
			}
		}
	})
}

func TestFollowWaitsAsItIsAsked(t *testing.T) {
	for _, tt := range []struct {
		name      string
		responses [][]byte
		from, to  time.Duration
	}{
		{"retry", [][]byte{events("retry: 7000\n\n"), events(end(1))}, 7 * time.Second, 8 * time.Second},
		{
			"Retry-After",
			[][]byte{problemAnswer(503, "Retry-After: 9\r\n", "shutting_down", true), events(end(1))},
			9 * time.Second, 10 * time.Second,
		},
		{"the longer of both", [][]byte{
			events("retry: 4000\n\n"), problemAnswer(503, "Retry-After: 1\r\n", "shutting_down", true), events(end(1)),
		}, 8 * time.Second, 11 * time.Second},
		{"nothing", [][]byte{events(), events(end(1))}, 0, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var drops []client.Drop
				opts := &client.FollowOptions{OnDrop: func(d client.Drop) { drops = append(drops, d) }}
				c := script(tt.responses...).client(t, client.Options{MinWait: time.Second})
				if _, err := collect(c.Follow(t.Context(), "x", opts)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took < tt.from || took > tt.to {
					t.Errorf("took %v, want %v to %v", took, tt.from, tt.to)
				}
				var waits time.Duration
				for _, drop := range drops {
					waits += drop.Wait
				}
				if waits != time.Since(begun) || len(drops) != len(tt.responses)-1 || drops[0].Since != begun {
					t.Errorf("was told of %+v", drops)
				}
			})
		})
	}
}

func TestFollowGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(plain(503, "", "")).client(t, client.Options{})
		begun := time.Now()
		_, err := collect(c.Follow(t.Context(), "x", &client.FollowOptions{GiveUp: time.Minute}))
		if p, ok := problem.As(err); !ok || p.Status != 503 || !client.Retryable(err) {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("gave up after %v", took)
		}
	})
}

// A connection that is open and says nothing is as good as lost; one that says
// little is not, however slowly.
func TestFollowIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(i int, _ *http.Request) ([]byte, bool) {
			switch i {
			case 0:
				return nil, true // not even a header
			case 1:
				return events(text(1, "stdout", "a")), true
			}
			return events(end(2)), false
		}}
		c := w.client(t, client.Options{})
		begun := time.Now()
		got, err := collect(c.Follow(t.Context(), "x", nil))
		if err != nil || seqs(got) != "1 stdout,2 end" {
			t.Errorf("%s, %v", seqs(got), err)
		}
		if took := time.Since(begun); took < 90*time.Second || took > 93*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// The time that the loop takes for itself is not silence of the server.
func TestFollowSlowLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		much := strings.Repeat("x", 100_000) // more than is read ahead
		w := script(events(text(1, "stdout", much), text(2, "stdout", much), end(3)))
		c := w.client(t, client.Options{})
		n := 0
		for _, err := range c.Follow(t.Context(), "x", nil) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			time.Sleep(time.Hour) // of the bubble
		}
		if n != 3 || w.count() != 1 {
			t.Errorf("%d events, %d requests", n, w.count())
		}
	})
}

// What a server sends again is not given again, and is no reason to come back.
func TestFollowLeavesOutWhatItHasSeen(t *testing.T) {
	for _, types := range [][]string{nil, {"a"}} {
		synctest.Test(t, func(t *testing.T) {
			w := script(events(text(1, "a", ""), text(2, "a", ""), text(2, "a", ""), text(1, "a", ""),
				"id: "+cursorAt(1, "A")+"\n\n", end(3)))
			c := w.client(t, client.Options{})
			got, err := collect(c.Follow(t.Context(), "x", &client.FollowOptions{Types: types}))
			if err != nil || seqs(got) != "1 a,2 a,3 end" || w.count() != 1 {
				t.Errorf("%v: %s, %v after %d requests", types, seqs(got), err, w.count())
			}
		})
	}
}

// Faults that come now and then, with events between them, add up to nothing.
func TestEventsResetFaultsOfFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(i int, _ *http.Request) ([]byte, bool) {
			if i == 9 {
				return events(end(10)), false
			}
			return events(text(i+1, "a", ""), "data: garbage\n\n"), false
		}}
		got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", nil))
		if err != nil || len(got) != 10 {
			t.Errorf("%s, %v", seqs(got), err)
		}
	})
}

func TestFollowCancelled(t *testing.T) {
	leave := errors.New("enough")
	for name, w := range map[string]*wire{
		"before the header": {answer: func(int, *http.Request) ([]byte, bool) { return nil, true }},
		"waiting for more": {
			answer: func(int, *http.Request) ([]byte, bool) { return events(text(1, "stdout", "a")), true },
		},
		"between tries": script(plain(503, "Retry-After: 3600\r\n", "")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := w.client(t, client.Options{})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Second, func() { cancel(leave) })
				if _, err := collect(c.Follow(ctx, "x", nil)); err != leave { // the cause itself
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// Who cancels within the loop gets nothing more, though more has been read ahead.
func TestFollowCancelledWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(events(text(1, "a", ""), text(2, "a", ""), end(3))).client(t, client.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		for _, err := range c.Follow(ctx, "x", nil) {
			if n++; n == 2 && !errors.Is(err, context.Canceled) {
				t.Errorf("then %v", err)
			}
			cancel()
		}
		if n != 2 {
			t.Errorf("%d turns", n)
		}
	})
}

func TestFollowGap(t *testing.T) {
	gap := fmt.Sprintf(`{"code":"cursor_expired","earliest":%q,"tail":%q,"missed":4}`,
		cursorAt(5, "A"), cursorAt(6, "A"))
	midStream := events(text(1, "stdout", "a"), frame(5, "A", "gap", gap), text(6, "stdout", "f"), end(7))
	t.Run("yield", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := script(midStream).client(t, client.Options{})
			got, err := collect(c.Follow(t.Context(), "x", nil))
			if err != nil || seqs(got) != "1 stdout,0 gap,6 stdout,7 end" {
				t.Fatalf("%s, %v", seqs(got), err)
			}
			want := &client.Gap{Code: "cursor_expired", Earliest: cursorAt(5, "A"), Tail: cursorAt(6, "A"), Missed: 4}
			if diff := cmp.Diff(want, got[1].Gap); diff != "" {
				t.Error(diff)
			}
		})
	})
	refused := plain(410, "Content-Type: application/problem+json\r\n", fmt.Sprintf(
		`{"status":410,"code":"cursor_expired","retryable":false,"earliest":%q,"tail":%q}`, cursorAt(5, "A"),
		cursorAt(6, "A")))
	for name, responses := range map[string][][]byte{
		"fail in the middle":    {midStream},
		"fail after a drop":     {events(text(1, "stdout", "a")), refused},
		"fail at the beginning": {refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := script(responses...)
				c := w.client(t, client.Options{})
				cursors := new(client.MemoryCursor)
				cursors.Save(t.Context(), cursorAt(1, "A"))
				opts := &client.FollowOptions{OnGap: client.GapFail, Cursors: cursors}
				if name != "fail at the beginning" {
					cursors.Save(t.Context(), "")
				}
				_, err := collect(c.Follow(t.Context(), "x", opts))
				failure, ok := errors.AsType[*client.GapError](err)
				if !ok || failure.Gap.Missed != 4 || failure.Gap.Earliest != cursorAt(5, "A") {
					t.Fatalf("%v", err)
				}
				if window, ok := errors.AsType[*reprise.WindowError](err); !ok || window.Earliest.Seq != 5 {
					t.Errorf("%v", err)
				}
				if saved, _ := cursors.Load(t.Context()); saved != cursorAt(1, "A") {
					t.Errorf("the saved cursor has moved to %q", saved)
				}
				if w.request(t, 0).URL.Query().Has("gap") {
					t.Error("asked for gaps as events")
				}
			})
		})
	}
	t.Run("other epoch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gap := fmt.Sprintf(`{"code":"epoch_changed","earliest":%q,"tail":%q,"missed":0}`,
				cursorAt(0, "B"), cursorAt(1, "B"))
			c := script(events(frame(0, "B", "gap", gap), frame(1, "B", "stdout", `{"seq":1,"text":"new"}`)),
				events(frame(2, "B", "end", `{"seq":2,"outcome":"exited"}`))).client(t, client.Options{})
			got, err := collect(c.Follow(t.Context(), "x", &client.FollowOptions{After: cursorAt(8, "A")}))
			if err != nil || seqs(got) != "0 gap,1 stdout,2 end" {
				t.Errorf("%s, %v", seqs(got), err)
			}
		})
	})
}

// "From now on" has a place: what comes while the connection is down is not left out.
func TestFollowFromTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := fmt.Sprintf(`{"events":[],"next_cursor":%q,"has_more":false,"ended":false,"window":{}}`,
			cursorAt(4, "A"))
		w := script(jsonAnswer(200, page), events(), events(text(5, "stdout", "e"), end(6)))
		cursors := new(client.MemoryCursor)
		c := w.client(t, client.Options{})
		for event, err := range c.Follow(t.Context(), "x", &client.FollowOptions{After: "tail", Cursors: cursors}) {
			if saved, _ := cursors.Load(t.Context()); err != nil || event.Seq != 5 || saved != cursorAt(4, "A") {
				t.Errorf("%+v, %v, saved %q", event, err, saved)
			}
			break
		}
		if id := w.request(t, 2).Header.Get("Last-Event-ID"); id != cursorAt(4, "A") {
			t.Errorf("resumed from %q", id)
		}
	})
}

func TestFollowRefusesNamesAndCursors(t *testing.T) {
	c := script().client(t, client.Options{})
	for _, id := range []string{"", ".", ".."} {
		if _, err := collect(c.Follow(t.Context(), id, nil)); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, after := range []string{"1\r\nX: y", "é", strings.Repeat("1", 2000)} {
		_, err := collect(c.Follow(t.Context(), "x", &client.FollowOptions{After: after}))
		if !errors.Is(err, reprise.ErrCursorMalformed) {
			t.Errorf("%.10q: %v", after, err)
		}
	}
}
