package ssehttp_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/sse/ssehttp"
)

// wireForm is what the events of TestWireForm look like, byte for byte, but for what is random in
// a cursor.
const wireForm = `retry: 1000
event: message
data: {"seq":1,"time":"2026-01-02T15:04:05.678Z","text":""}
id: 1.C

event: stdout
data: {"seq":2,"time":"2026-01-02T15:04:05.678Z","text":"héllo, \"wörld\" \\o/\n\r\t\u0000\u001b[0m` + "\x7f" + `\u2028😀"}
id: 2.C

event: stderr
data: {"seq":3,"time":"2026-01-02T15:04:05.678Z","base64":"AP/+gA=="}
id: 3.C

event: stdout
data: {"seq":4,"time":"2026-01-02T15:04:05.678Z","base64":"4oI="}
id: 4.C

event: note
data: {"seq":5,"time":"2026-01-02T15:04:05.678Z","data":[1, {"a": null}]}
id: 5.C

event: started
data: {"seq":6,"time":"2026-01-02T15:04:05.678Z","pid":7,"id":"x"}
id: 6.C

event: note
data: {"seq":7,"time":"2026-01-02T15:04:05.678Z"}
id: 7.C

event: note
data: {"seq":8,"time":"2026-01-02T15:04:05.678Z"}
id: 8.C

event: end
data: {"seq":9,"time":"2026-01-02T15:04:05.678Z","outcome":"exited","exit_code":3}
id: 9.C

`

func TestWireForm(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	at := time.Date(2026, 1, 2, 16, 4, 5, 678_999_999, time.FixedZone("", 3600))
	for _, e := range []reprise.Event{
		{},
		{Type: "stdout", Data: []byte("héllo, \"wörld\" \\o/\n\r\t\x00\x1b[0m\x7f\u2028😀")},
		{Type: "stderr", Data: []byte("\x00\xff\xfe\x80")},
		{Type: "stdout", Data: []byte("€"[:2])}, // part of a rune
		{Type: "note", Format: reprise.FormatJSON, Data: []byte(`[1, {"a": null}]`)},
		{Type: "started", Format: reprise.FormatMembers, Data: []byte(`{"pid":7,"id":"x"}`)},
		{Type: "note", Format: reprise.FormatMembers, Data: []byte(`{}`)},
		{Type: "note", Format: reprise.FormatMembers, Data: []byte("{ \t }")},
	} {
		e.Time = at
		add(t, s, e)
	}
	_, err := s.End(t.Context(), "exited", reprise.Event{
		Time: at, Format: reprise.FormatMembers, Data: []byte(`{ "outcome":"exited","exit_code":3 }`),
	})
	check(t, err)
	random := s.Cursor(0).String()[1:]
	for _, reading := range []string{"the first time", "from what is shared"} {
		body, err := io.ReadAll(site.get(t, "s", "").Body)
		check(t, err)
		if got := strings.ReplaceAll(string(body), random, ".C"); got != wireForm {
			t.Errorf("%s:\n%s\nwant:\n%s", reading, got, wireForm)
		}
	}
	body, err := io.ReadAll(site.get(t, "s", "", "types=started").Body)
	check(t, err)
	const filtered = "retry: 1000\nevent: started\n" +
		`data: {"seq":6,"time":"2026-01-02T15:04:05.678Z","pid":7,"id":"x"}` + "\nid: 6.C\n\nid: 9.C\n\n"
	if got := strings.ReplaceAll(string(body), random, ".C"); got != filtered {
		t.Errorf("filtered:\n%s\nwant:\n%s", got, filtered)
	}
}

// TestFormsShareNothing: readers of one stream in two forms each get theirs.
func TestFormsShareNothing(t *testing.T) {
	log := newLog(t, nil)
	s := create(t, log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	end(t, s)
	r, err := s.Reader(t.Context(), reprise.Earliest())
	check(t, err)
	defer r.Close()
	run, err := r.Poll(t.Context())
	check(t, err)
	first := string(run.Encoded(ssehttp.EventStream{}))
	if got := string(run.Encoded(seqs{})); got != "1 2 3 4 " {
		t.Errorf("another form got %q", got)
	}
	if again := string(run.Encoded(ssehttp.EventStream{})); again != first {
		t.Errorf("the first form got %q and then %q", first, again)
	}
}

// seqs is an Encoder for nothing but the seqs.
type seqs struct{}

func (seqs) AppendEvent(dst []byte, e *reprise.Event, _ string) []byte {
	return append(dst, byte('0'+e.Seq), ' ')
}
