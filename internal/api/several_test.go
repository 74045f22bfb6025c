package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// severalAnswers puts the lines of an answer for several streams together again, until it ends or enough reports that it
// holds what is waited for.
func severalAnswers(f *follower, reads int, enough func([]oneAnswer) bool) []oneAnswer {
	f.w.Helper()
	answers := make([]oneAnswer, reads)
	for !enough(answers) {
		line := f.line()
		if line == "" {
			return answers
		}
		var p struct {
			Read, Status int
			Head         map[string]string
			Text         string
			Over         bool
		}
		f.w.ok(json.Unmarshal([]byte(line), &p))
		a := &answers[p.Read]
		if a.over {
			f.w.Fatalf("after its end: %s", line)
		}
		if p.Status != 0 {
			a.status, a.tail, a.outcome = p.Status, p.Head["Stream-Tail"], p.Head["Stream-Outcome"]
		}
		a.body += p.Text
		a.over = p.Over
	}
	return answers
}

type oneAnswer struct {
	status              int
	tail, outcome, body string
	over                bool
}

func never([]oneAnswer) bool { return false }

// TestSeveralStreamsAreReadAsEachByItself: a line holds a part of what a request of its own would have got, also where
// that is a refusal or the end.
func TestSeveralStreamsAreReadAsEachByItself(t *testing.T) {
	w := start(t, setup{})
	for _, name := range []string{"one", "two/more", "over"} {
		w.stream(name, name+" first", name+" \u2028<second>")
		w.do("POST", "/v1/streams/"+url.PathEscape(name)+"/end", `{"outcome":"completed"}`).is(200)
	}
	w.do("POST", "/v1/executions", `{"id":"run","command":"echo out; echo err >&2; exit 3"}`).is(201)
	w.ended("run")
	page := w.do("GET", "/v1/streams/one/events?limit=1", "").is(200)
	end := w.do("GET", "/v1/streams/over/events", "").is(200)
	after, tail := page.text("next_cursor"), end.text("next_cursor")
	f := w.follow("/v1/events?of=streams/one@" + after + ",streams/two/more,executions/run,streams/over@" + tail +
		",streams/nobody,streams/one@" + tail + ",executions/..")
	defer f.close()
	paths := []string{
		"/v1/streams/one/events?gap=event&after=" + after, "/v1/streams/two%2Fmore/events?gap=event",
		"/v1/executions/run/events?gap=event", "/v1/streams/over/events?gap=event&after=" + tail,
		"/v1/streams/nobody/events", "/v1/streams/one/events?gap=event&after=" + tail, "/v1/executions/%2e%2e/events",
	}
	answers := severalAnswers(f, len(paths), never)
	for i, path := range paths {
		alone := w.do("GET", path, "", "Accept: text/event-stream")
		got := answers[i]
		if strings.Contains(path, "%2e") {
			got.body, alone.body = "", "" // both are refused: the one as a path, the other as a name
		}
		want := oneAnswer{alone.status, alone.header.Get("Stream-Tail"), alone.header.Get("Stream-Outcome"), alone.body, true}
		if got != want {
			t.Errorf("%s:\n%+v, by itself:\n%+v", path, got, want)
		}
	}
	if answers[3].status != 204 || answers[4].status != 404 || answers[5].status != 400 {
		t.Errorf("the statuses are %d, %d, %d", answers[3].status, answers[4].status, answers[5].status)
	}
}

// TestSeveralStreamsAreLive: events arrive as they happen, each stream on its own, and who leaves leaves no reader.
func TestSeveralStreamsAreLive(t *testing.T) {
	w := start(t, setup{})
	const streams = 12
	var of []string
	for i := range streams {
		w.stream(fmt.Sprint("s", i))
		of = append(of, fmt.Sprint("streams/s", i))
	}
	f := w.follow("/v1/events?of=" + strings.Join(of, ","))
	severalAnswers(f, streams, func(answers []oneAnswer) bool {
		for _, a := range answers {
			if a.status != 200 {
				return false
			}
		}
		return true
	})
	if n := w.metric("reprise_readers"); n != fmt.Sprint(streams) {
		t.Errorf("there are %s readers", n)
	}
	for i := range streams {
		w.do("POST", fmt.Sprintf("/v1/streams/s%d/events", i), fmt.Sprintf(`{"type":"note","data":"for %d"}`, i)).is(200)
		severalAnswers(f, streams, func(answers []oneAnswer) bool {
			for j, a := range answers {
				if strings.Contains(a.body, "event:") && j != i {
					t.Errorf("stream %d was sent %q", j, a.body)
				}
			}
			return strings.Contains(answers[i].body, fmt.Sprintf(`"for %d"`, i))
		})
	}
	f.close()
	w.eventually("no reader is left", func() bool { return w.metric("reprise_readers") == "0" })
}

// TestSeveralStreamsOfOthers: what another tenant has, or a prefix does not cover, is like what nobody has.
func TestSeveralStreamsOfOthers(t *testing.T) {
	w := start(t, setup{})
	w.stream("secret", "x")
	w.stream("mine", "x")
	_, other := w.key("other", "read")
	_, narrow := w.key("default", "read:mine")
	_, writer := w.key("default", "publish")
	for name, credential := range map[string]string{"another tenant": other, "another prefix": narrow} {
		w.with(credential, func() {
			f := w.follow("/v1/events?of=streams/secret,streams/nobody,executions/secret,executions/nobody")
			defer f.close()
			answers := severalAnswers(f, 4, never)
			for i := 0; i < 4; i += 2 {
				of := func(a oneAnswer, name string) string { return strings.ReplaceAll(fmt.Sprint(a), name, "NAME") }
				if of(answers[i], "secret") != of(answers[i+1], "nobody") || answers[i].status != 404 {
					t.Errorf("%s: %+v, and for what nobody has %+v", name, answers[i], answers[i+1])
				}
			}
		})
	}
	w.with(narrow, func() {
		f := w.follow("/v1/events?of=streams/mine")
		defer f.close()
		severalAnswers(f, 1, func(a []oneAnswer) bool { return strings.Contains(a[0].body, "note") })
	})
	w.with(writer, func() { w.do("GET", "/v1/events?of=streams/mine", "").refused(403, "forbidden") })
}

func TestSeveralStreamsRefused(t *testing.T) {
	w := start(t, setup{})
	many := strings.TrimSuffix(strings.Repeat("streams/s,", 65), ",")
	for _, of := range []string{
		"", "?of=", "?of=s", "?of=streams/", "?of=executions", "?of=sessions/x", "?of=streams/a,",
		"?of=" + many, "?of=streams/a&of=streams/b", "?of=streams/a&limit=1",
	} {
		w.do("GET", "/v1/events"+of, "").refused(400, "invalid")
	}
	w.do("POST", "/v1/events?of=streams/a", "").refused(405, "invalid")
	w.with("", func() { w.do("GET", "/v1/events?of=streams/a", "").refused(401, "unauthenticated") })
}
