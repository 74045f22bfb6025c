package client_test

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/problem"
)

// foreignAnswers are answers of something in front of the server.
var foreignAnswers = map[string][]byte{
	"404":                   plain(404, "Content-Type: text/html\r\n", "<h1>no such site</h1>"),
	"401":                   plain(401, "WWW-Authenticate: Basic\r\n", ""),
	"403":                   plain(403, "", ""),
	"522":                   plain(522, "", "error code: 522"),
	"problem without code":  plain(404, "Content-Type: application/problem+json\r\n", `{"title":"x","status":404}`),
	"login page":            plain(200, "Content-Type: text/html\r\n", "<form>"),
	"redirect to the login": plain(302, "Location: http://login.test/\r\n", ""),
}

// foreignToReaders are answers to a request for events that are not the server's. A 204 of the server carries the
// outcome of the stream.
func foreignToReaders() map[string][]byte {
	answers := maps.Clone(foreignAnswers)
	answers["204 without outcome"] = plain(204, "", "")
	return answers
}

// DESIGN 9.5: an answer that is not the server's does not end a loop that has met the server.
func TestFollowOutlastsForeignAnswersInMidRun(t *testing.T) {
	for name, foreign := range foreignToReaders() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				w := &wire{answer: func(i int, _ *http.Request) ([]byte, bool) {
					switch {
					case i == 0:
						return events(text(1, "stdout", "a")), false
					case time.Since(begun) < 25*time.Second:
						return foreign, false
					}
					return events(end(2)), false
				}}
				c := w.client(t, client.Options{MaxWait: 5 * time.Second})
				got, err := collect(c.Follow(t.Context(), "x", nil))
				if err != nil || seqs(got) != "1 stdout,2 end" {
					t.Errorf("%s, %v", seqs(got), err)
				}
			})
		})
	}
}

func TestFollowGivesUpOnForeignAnswersAfterAMinute(t *testing.T) {
	for name, foreign := range foreignToReaders() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				// An hour of refused connections before does not count.
				var answered time.Time
				w := &wire{answer: func(i int, _ *http.Request) ([]byte, bool) {
					switch {
					case i == 0:
						return events(text(1, "stdout", "a")), false
					case time.Since(begun) < time.Hour:
						return nil, false
					case answered.IsZero():
						answered = time.Now()
					}
					return foreign, false
				}}
				c := w.client(t, client.Options{MaxWait: 2 * time.Second})
				_, err := collect(c.Follow(t.Context(), "x", nil))
				if _, ok := errors.AsType[*client.Error](err); !ok || client.Retryable(err) {
					t.Errorf("%v", err)
				}
				if took := time.Since(answered); took < 57*time.Second || took > time.Minute {
					t.Errorf("gave up after %v", took)
				}
			})
		})
	}
}

// A refusal with a code is the server's own, in mid-run too.
func TestFollowGivesUpAtOnceOnARefusalInMidRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script(events(text(1, "stdout", "a")), problemAnswer(404, "", "not_found", false))
		_, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", nil))
		if !errors.Is(err, reprise.ErrNotFound) || w.count() != 2 {
			t.Errorf("%v after %d requests", err, w.count())
		}
	})
}

// Before the server was met, an answer that is not its own is a wrong address.
func TestForeignFirstAnswerIsFinal(t *testing.T) {
	for _, name := range []string{"404", "401", "403", "522", "problem without code"} {
		synctest.Test(t, func(t *testing.T) {
			w := script(foreignAnswers[name])
			c := w.client(t, client.Options{})
			_, err := collect(c.Follow(t.Context(), "x", nil))
			if p, ok := problem.As(err); !ok || p.Code != "" || w.count() != 1 {
				t.Errorf("%s: follow: %v after %d requests", name, err, w.count())
			}
			if _, err = c.Show(t.Context(), "x"); err == nil || w.count() != 2 {
				t.Errorf("%s: show: %v after %d requests", name, err, w.count())
			}
		})
	}
}

func TestCallsOutlastForeignAnswersOnceTheServerWasMet(t *testing.T) {
	for name, foreign := range foreignAnswers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{}
				w.answer = func(i int, _ *http.Request) ([]byte, bool) {
					if i == 0 {
						return problemAnswer(404, "", "not_found", false), false
					}
					return foreign, false
				}
				c := w.client(t, client.Options{MaxWait: 2 * time.Second})
				if _, err := c.Show(t.Context(), "x"); !errors.Is(err, reprise.ErrNotFound) {
					t.Fatal(err)
				}
				begun := time.Now()
				err := c.Cancel(t.Context(), "x")
				if took := time.Since(begun); err == nil || took < 57*time.Second || took > time.Minute {
					t.Errorf("%v after %v", err, took)
				}
				w.answer = func(int, *http.Request) ([]byte, bool) { return foreign, false }
				begun, sent := time.Now(), w.count()
				if err := c.Signal(t.Context(), "x", "INT"); err == nil || w.count() != sent+1 {
					t.Errorf("a signal was sent %d times: %v", w.count()-sent, err)
				}
				if took := time.Since(begun); took > 0 {
					t.Errorf("a signal took %v", took)
				}
			})
		})
	}
}

// Events that something in front of the server puts among its own are none: they have no id. What is missing shows by
// seq.
func TestForeignEventsAreNotGiven(t *testing.T) {
	foreign := "event: ping\ndata: {\"from\":\"a proxy\"}\n\nevent: end\ndata: not JSON\n\ndata\n\n" +
		"data: {\"seq\":\"1\"}\n\n"
	for name, tt := range map[string]struct{ answer, want, err string }{
		"among events":         {foreign + text(1, "note", "a") + foreign + end(2), "1 note,2 end", ""},
		"in place of an event": {text(1, "note", "a") + foreign + end(3), "1 note", "event 3 comes after 1"},
		"an event without its id": {
			"data: {\"seq\":1,\"time\":\"2026-11-20T09:30:00.000Z\",\"text\":\"a\"}\n\n", "", "no cursor",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(i int, _ *http.Request) ([]byte, bool) {
				if i < 8 && tt.err == "" {
					return events(foreign), false // and nothing else
				}
				return events(tt.answer), false
			}}
			got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", nil))
			if seqs(got) != tt.want || (err == nil) != (tt.err == "") ||
				err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %s, %v", name, seqs(got), err)
			}
		})
	}
}

// Something in front of the server may add parameters to the content type, which cannot be read, or repeat it.
func TestContentTypeMayHaveAnyParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []string{
			"text/event-stream; charset=utf-8; charset=utf-8", " Text/Event-Stream;q",
			"text/event-stream, text/event-stream",
		} {
			w := script(plain(200, "Content-Type: "+kind+"\r\n", end(1)))
			got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", nil))
			if err != nil || seqs(got) != "1 end" {
				t.Errorf("%s: %s, %v", kind, seqs(got), err)
			}
		}
	})
}
