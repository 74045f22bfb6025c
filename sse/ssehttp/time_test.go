package ssehttp_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/sse"
	"reprise/sse/ssehttp"
)

// TestHeartbeatAfterSilence: a comment after 15 s of silence and each 15 s from then on; an event begins the silence
// anew, and a comment is no event.
func TestHeartbeatAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, nil, nil)
		s := create(t, p.log, "s", reprise.Retention{})
		in := lines(p.get(t, "/s"))
		begin := time.Now()
		next := func(want string, at time.Duration) {
			t.Helper()
			came := in.Scan() && strings.HasPrefix(in.Text(), want) && (want == "") == (in.Text() == "")
			if !came || time.Since(begin) != at {
				t.Fatalf("after %v came %q, want %q after %v", time.Since(begin), in.Text(), want, at)
			}
		}
		next("retry: 1000", 0)
		next(":", 15*time.Second)
		next(":", 30*time.Second)
		time.Sleep(10 * time.Second)
		add(t, s, numbered(1, 1)...)
		next("event: note", 40*time.Second)
		next("data: ", 40*time.Second)
		next("id: 1.", 40*time.Second)
		next("", 40*time.Second)
		next(":", 55*time.Second)
	})
}

// TestShutdownIsNotTheEnd: when the Log closes, its readers are told to come back soon, and the response ends
// without an end event.
func TestShutdownIsNotTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, nil, nil)
		s := create(t, p.log, "s", reprise.Retention{})
		add(t, s, numbered(1, 2)...)
		d := sse.NewDecoder(p.get(t, "/s"), nil)
		wantIDs(t, take(t, d, 2), "1 2")
		if retry, _ := d.Retry(); retry != time.Second {
			t.Errorf("retry: %v", retry)
		}
		check(t, p.log.Close())
		if e, err := d.Next(); err != io.EOF {
			t.Fatalf("after the Log was closed came %+v, %v", e, err)
		}
		if retry, _ := d.Retry(); retry != 250*time.Millisecond {
			t.Errorf("the retry of a shutdown is %v, want 250ms", retry)
		}
	})
}

// TestRemovedStreamEndsResponse: a block without an id says why, and what follows is a refusal.
func TestRemovedStreamEndsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, nil, nil)
		s := create(t, p.log, "s", reprise.Retention{})
		add(t, s, numbered(1, 2)...)
		d := sse.NewDecoder(p.get(t, "/s"), nil)
		wantIDs(t, take(t, d, 2), "1 2")
		check(t, p.log.Remove(t.Context(), named("s")))
		e, err := d.Next()
		check(t, err)
		if e.Type != "removed" || !strings.Contains(string(e.Data), `"code":"not_found"`) {
			t.Errorf("the last block is %s %s", e.Type, e.Data)
		}
		if _, err := d.Next(); err != io.EOF {
			t.Fatalf("after the removal came %v", err)
		}
		if retry, _ := d.Retry(); retry != 250*time.Millisecond {
			t.Errorf("the retry of a removal is %v, want 250ms", retry)
		}
	})
}

// TestCloseEventIsTheLast: of a stream that has ended or was removed, and not of one that goes on.
func TestCloseEventIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, nil, &ssehttp.Options{CloseEvent: true})
		var bodies []io.Reader
		for _, name := range []string{"ended", "removed", "open"} {
			add(t, create(t, p.log, name, reprise.Retention{}), numbered(1, 1)...)
			bodies = append(bodies, p.get(t, "/"+name))
		}
		synctest.Wait()
		s, err := p.log.Stream(t.Context(), named("ended"))
		check(t, err)
		_, err = s.End(t.Context(), "completed", reprise.Event{})
		check(t, err)
		check(t, p.log.Remove(t.Context(), named("removed")))
		synctest.Wait()
		check(t, p.log.Close())
		const last = "\n\nevent: close\ndata: {\"status\":\"closed\"}\nretry: 3000\n\n"
		for i, wants := range []bool{true, true, false} {
			text, err := io.ReadAll(bodies[i])
			check(t, err)
			if strings.HasSuffix(string(text), last) != wants || strings.Contains(string(text), "close") != wants {
				t.Errorf("body %d ends with %q", i, text)
			}
		}
	})
}

// TestReaderThatTakesNothingIsClosed: after 30 s, to within a second, or what else is said.
func TestReaderThatTakesNothingIsClosed(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"default": 0, "short": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed := make(chan time.Time, 1)
				hooks := &reprise.Hooks{ReaderClosed: func(reprise.StreamKey) { closed <- time.Now() }}
				p := newPipes(t, &reprise.Options{Hooks: hooks}, &ssehttp.Options{WriteTimeout: timeout})
				if timeout == 0 {
					timeout = 30 * time.Second
				}
				s := create(t, p.log, "s", reprise.Retention{})
				stuck := p.dial(t)
				ask(t, stuck, "/s")
				begin := time.Now()
				add(t, s, numbered(1, 100)...)
				if took := (<-closed).Sub(begin); took > timeout || took < timeout-min(time.Second, timeout/4) {
					t.Errorf("closed after %v, want %v", took, timeout)
				}
			})
		})
	}
}

// TestDeadlineEndsWithItsResponse: a connection over which a stream was followed is used for other
// requests afterwards, at any time.
func TestDeadlineEndsWithItsResponse(t *testing.T) {
	for _, ahead := range []bool{false, true} { // true: a gap event comes first
		synctest.Test(t, func(t *testing.T) {
			p := newPipes(t, nil, nil)
			s := create(t, p.log, "ended", reprise.Retention{})
			end(t, s)
			path := "/ended"
			if ahead {
				path += "?gap=event&after=" + s.Cursor(9).String()
			}
			c := p.dial(t)
			from := bufio.NewReader(c)
			for range 3 {
				ask(t, c, path)
				res := answer(t, from)
				body, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("status %d, %q, %v", res.StatusCode, body, err)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

// TestQuietReaderIsNotClosed: silence is no stall.
func TestQuietReaderIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, nil, &ssehttp.Options{Heartbeat: time.Hour, WriteTimeout: time.Second})
		s := create(t, p.log, "s", reprise.Retention{})
		d := sse.NewDecoder(p.get(t, "/s"), nil)
		for i := range 3 {
			go func() {
				time.Sleep(30 * time.Minute)
				add(t, s, numbered(i+1, 1)...)
			}()
			take(t, d, 1)
		}
	})
}
