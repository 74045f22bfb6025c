package api_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/execution"
)

// wantMetrics compares lines of /metrics with what they should be.
func (w *fixture) wantMetrics(want map[string]string) {
	w.Helper()
	for name, value := range want {
		if got := w.metric(name); got != value {
			w.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

// TestResumesAreCounted: each cursor counts once, by how it came, what came of it and why.
func TestResumesAreCounted(t *testing.T) {
	w := start(t, setup{})
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
	s, _, err := w.log.Create(t.Context(), key, reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 3}})
	w.ok(err)
	for range 8 {
		_, err := s.Append(t.Context(), reprise.Event{Type: "note", Data: []byte("x")})
		w.ok(err)
	}
	w.do("POST", "/v1/streams/s/end", `{"outcome":"completed"}`) // 7 to 9 are kept
	events := "/v1/streams/s/events"
	at := func(seq uint64) string { return s.Cursor(seq).String() }
	w.do("GET", events, "", asSSE).is(200) // no cursor
	w.do("GET", events+"?after=earliest", "").is(200)
	w.do("GET", events, "", asSSE, "Last-Event-ID: "+at(7)).is(200)
	w.do("GET", events, "", "Accept: application/x-ndjson", "Last-Event-ID: "+at(8)).is(200)
	w.do("GET", events+"?after="+at(6), "").is(200) // a page
	w.do("GET", events, "", asSSE, "Last-Event-ID: "+at(9)).is(204)
	w.do("GET", events+"?gap=event", "", asSSE, "Last-Event-ID: "+at(1)).is(200)
	w.do("GET", events, "", asSSE, "Last-Event-ID: "+at(1)).is(410)
	w.do("GET", events+"?after="+at(1), "").is(410)
	w.do("GET", events+"?after=what", "").is(400)
	w.wantMetrics(map[string]string{
		`reprise_resumes_total{reason="none",result="replayed",via="last_event_id"}`:          "2",
		`reprise_resumes_total{reason="none",result="replayed",via="query"}`:                  "1",
		`reprise_resumes_total{reason="none",result="nothing",via="last_event_id"}`:           "1",
		`reprise_resumes_total{reason="cursor_expired",result="gap",via="last_event_id"}`:     "1",
		`reprise_resumes_total{reason="cursor_expired",result="refused",via="last_event_id"}`: "1",
		`reprise_resumes_total{reason="cursor_expired",result="refused",via="query"}`:         "1",
		`reprise_resumes_total{reason="cursor_malformed",result="refused",via="query"}`:       "1",
		`reprise_resume_replay_events_count`:                                                  "5",
		// 2, 1, 3, 0 and, after the gap, 3
		`reprise_resume_replay_events_sum`: "9",
	})
}

// TestKeptIsCountedByTenant: the largest tenants by name, and all others together.
func TestKeptIsCountedByTenant(t *testing.T) {
	const tenants = 105
	w := start(t, setup{})
	for i := range tenants {
		key := reprise.StreamKey{Tenant: reprise.Tenant(fmt.Sprintf("t%03d", i)), Name: "s"}
		s, _, err := w.log.Create(t.Context(), key, reprise.StreamConfig{})
		w.ok(err)
		for range i + 1 {
			_, err := s.Append(t.Context(), reprise.Event{Type: "note", Data: []byte("x")})
			w.ok(err)
		}
	}
	w.wantMetrics(map[string]string{
		`reprise_kept_events{tenant="t104"}`:     "105",
		`reprise_kept_streams{tenant="t104"}`:    "1",
		`reprise_kept_events{tenant="t004"}`:     "",
		`reprise_kept_events{tenant="(other)"}`:  "15", // 1 to 5 of the five smallest
		`reprise_kept_streams{tenant="(other)"}`: "5",
		`reprise_kept_bytes_limit{of="total"}`:   "1.7179869184e+10",
	})
	var sum int64
	page := w.do("GET", "/metrics", "").is(200).body
	for _, m := range regexp.MustCompile(`(?m)^reprise_kept_bytes\{.*\} (\S+)$`).FindAllStringSubmatch(page, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		w.ok(err)
		sum += int64(n)
	}
	if want := w.log.Usage().Bytes; sum != want || sum == 0 {
		t.Errorf("%d bytes in all lines, the log counts %d", sum, want)
	}
	if n := strings.Count(page, "\nreprise_kept_bytes{"); n != 101 {
		t.Errorf("%d lines, want 100 tenants and the others", n)
	}
}

// TestExecutionsAreCountedByTenant: those that run, those that wait, and those that have ended.
func TestExecutionsAreCountedByTenant(t *testing.T) {
	w := start(t, setup{host: execution.Options{MaxRunning: 1}})
	for _, id := range []string{"a", "b", "c"} {
		w.do("POST", "/v1/executions", `{"id":"`+id+`","argv":["cat"],"stdin_open":true}`).is(201)
	}
	w.wantMetrics(map[string]string{
		`reprise_tenant_executions{tenant="default",status="running"}`: "1",
		`reprise_tenant_executions{tenant="default",status="queued"}`:  "2",
		`reprise_executions{status="queued"}`:                          "2",

		`reprise_principal_queued_executions{tenant="default",principal="token"}`: "2",
	})
	for _, id := range []string{"c", "b", "a"} {
		w.do("POST", "/v1/executions/"+id+"/cancel", "")
		w.ended(id)
	}
	w.eventually("three ends are counted", func() bool {
		return w.metric(`reprise_tenant_executions_ended_total{tenant="default"}`) == "3"
	})
	w.eventually("nothing runs", func() bool { return w.metric(`reprise_executions{status="running"}`) == "0" })
	w.wantMetrics(map[string]string{`reprise_tenant_executions{tenant="default",status="running"}`: ""})
}

// BenchmarkMetrics asks for /metrics while 1,000 tenants keep ten streams each.
func BenchmarkMetrics(b *testing.B) {
	w := start(b, setup{})
	for tenant := range 1000 {
		for name := range 10 {
			key := reprise.StreamKey{Tenant: reprise.Tenant(fmt.Sprintf("t%d", tenant)), Name: strconv.Itoa(name)}
			s, _, err := w.log.Create(b.Context(), key, reprise.StreamConfig{})
			w.ok(err)
			_, err = s.Append(b.Context(), reprise.Event{Type: "note", Data: []byte("x")})
			w.ok(err)
		}
	}
	for b.Loop() {
		w.do("GET", "/metrics", "").is(200)
	}
}
