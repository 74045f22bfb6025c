package api_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestStreamFromCreationToRemoval(t *testing.T) {
	w := start(t, setup{})
	path := "/v1/streams/" + url.PathEscape("builds/linux.amd64")
	a := w.do("PUT", path, `{"retention":{"max_events":100,"max_age":"1h"},"labels":{"os":"linux"}}`).is(201)
	if a.header.Get("Location") != path || a.text("name") != "builds/linux.amd64" || a.text("status") != "open" {
		t.Errorf("created: %v %s", a.header, a.body)
	}
	w.do("PUT", path, `{"retention":{"max_events":100,"max_age":"1h"},"labels":{"os":"linux"}}`).is(200)
	w.do("PUT", path, `{}`).refused(409, "conflict")
	w.do("PUT", "/v1/streams/plain", "").is(201)

	a = w.do("POST", path+"/events",
		`{"events":[{"type":"note","data":{"a": [1, "<"]}},{"data":12345678901234567890}]}`).is(200)
	if a.number("first") != 1 || a.number("last") != 2 || a.text("cursor") == "" {
		t.Errorf("published: %s", a.body)
	}
	w.do("POST", path+"/events", `{"type":"alone"}`).is(200)
	w.do("POST", path+"/events", "{\"data\":\n1}\n", "Content-Type: application/x-ndjson").refused(400, "invalid")
	w.do("POST", path+"/events", "{\"data\":4}\n\n{\"data\":5}",
		"Content-Type: application/x-ndjson; charset=utf-8").is(200)
	w.do("POST", path+"/events?type=raw", "a\x00\xffb", "Content-Type: application/octet-stream").is(200)
	w.do("POST", path+"/events", "plain text", "Content-Type: text/plain").is(200)
	w.do("POST", path+"/end", `{"outcome":"exited"}`).refused(422, "invalid")
	w.do("POST", path+"/end", `{"outcome":"completed","data":{"n":1}}`).is(200)
	w.do("POST", path+"/end", `{"outcome":"completed","data":{"n":1}}`).refused(409, "stream_ended")

	page := w.do("GET", path+"/events", "").is(200)
	for _, part := range []string{
		`"type":"note","seq":1,`, `"data":{"a":[1,"<"]}`, `"type":"message","seq":2,`, `"data":12345678901234567890}`,
		`"type":"alone","seq":3,`, `"data":null}`, `"type":"raw","seq":6,`, `"base64":"YQD/Yg=="}`,
		`"text":"plain text"}`, `"type":"end","seq":8,`, `"outcome":"completed","data":{"n":1}}`,
	} {
		if !strings.Contains(page.body, part) {
			t.Errorf("%s is not in %s", part, page.body)
		}
	}
	if page.member("ended") != true || page.member("has_more") != false {
		t.Errorf("page %s", page.body)
	}
	if a = w.do("GET", path, "").is(200); a.text("status") != "ended" || a.text("outcome") != "completed" ||
		a.number("events") != 8 {
		t.Errorf("shown as %s", a.body)
	}
	if got := names(w.do("GET", "/v1/streams?limit=1", "").is(200), "streams", "name"); got != "plain" {
		t.Errorf("newest %q", got)
	}
	w.do("DELETE", path, "").is(204)
	w.do("DELETE", path, "").is(204)
	w.do("GET", path, "").refused(404, "not_found")
	w.do("POST", path+"/events", `{"data":1}`).refused(404, "not_found")
}

func TestPublishIsIdempotentByProducer(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	publish := func(seq, body string) *answer {
		return w.do("POST", "/v1/streams/s/events", body, "Producer-Id: p", "Producer-Epoch: 1", "Producer-Seq: "+seq)
	}
	first := publish("0", `{"data":"a"}`).is(200)
	again := publish("0", `{"data":"a"}`).is(200)
	if again.member("duplicate") != true || again.number("first") != first.number("first") ||
		again.text("cursor") != first.text("cursor") {
		t.Errorf("first %s, again %s", first.body, again.body)
	}
	publish("1", `{"data":"b"}`).is(200)
	if a := publish("0", `{"data":"a"}`).is(200); a.member("duplicate") != true {
		t.Errorf("an older duplicate: %s", a.body)
	}
	w.wantMetrics(map[string]string{"reprise_repeated_appends_total": "2"})
	publish("5", `{"data":"c"}`).refused(409, "conflict")
	publish("x", `{"data":"c"}`).refused(400, "invalid")
	w.do("POST", "/v1/streams/s/events", `{"data":1}`, "Producer-Id: p").refused(400, "invalid")
	w.do("POST", "/v1/streams/s/events", `{"data":1}`, "Producer-Id: p", "Producer-Epoch: 0",
		"Producer-Seq: 0").refused(409, "conflict")
	if a := w.do("GET", "/v1/streams/s", ""); a.number("events") != 2 {
		t.Errorf("kept: %s", a.body)
	}
}

func TestPublishRefusesWholeBodies(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	for _, c := range []struct {
		name, body, contentType string
		status                  int
		field                   string
	}{
		{"no JSON", `{"data":`, "application/json", 400, ""},
		{"two values", `{"data":1}{"data":2}`, "application/json", 400, ""},
		{"nothing", "", "application/json", 400, ""},
		{"no UTF-8", "{\"data\":\"\xff\"}", "application/json", 400, ""},
		{"no object", `[1]`, "application/json", 422, ""},
		{"unknown member", `{"data":1,"extra":2}`, "application/json", 422, "extra"},
		{"unknown in a list", `{"events":[{"data":1},{"dat":2}]}`, "application/json", 422, "events[1].dat"},
		{"other case", `{"Data":1}`, "application/json", 422, "Data"},
		{"wrong type", `{"type":5}`, "application/json", 422, "type"},
		{"no list", `{"events":{}}`, "application/json", 422, "events"},
		{"empty list", `{"events":[]}`, "application/json", 422, "events"},
		{"type that is taken", `{"type":"end"}`, "application/json", 400, ""},
		{"type with a line break", `{"type":"a\nb"}`, "application/json", 400, ""},
		{"second line", "{\"data\":1}\n{\"no\":2}\n", "application/x-ndjson", 422, "no"},
		{"no lines", "\n\n", "application/x-ndjson", 400, ""},
	} {
		a := w.do("POST", "/v1/streams/s/events", c.body, "Content-Type: "+c.contentType)
		if a.status != c.status || a.text("code") != "invalid" || a.text("field") != c.field {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	w.do("POST", "/v1/streams/s/events?type=x", `{"data":1}`).refused(400, "invalid")
	if a := w.do("GET", "/v1/streams/s", ""); a.number("events") != 0 {
		t.Errorf("something was appended: %s", a.body)
	}
}

// Arrays and objects are nested at most 512 levels deep in what is published, whichever way it comes.
func TestPublishRefusesDeepNesting(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	arrays := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	objects := func(levels int) string {
		return strings.Repeat(`{"[":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
	}
	publish := func(path, body, header string) *answer { return w.do("POST", "/v1/streams/s/"+path, body, header) }
	const lines = "Content-Type: application/x-ndjson"
	last := int64(0)
	for name, value := range map[string]func(int) string{"arrays": arrays, "objects": objects} {
		for _, c := range []struct {
			form, path, before, after, header, field string
		}{
			{"one", "events", `{"data":`, `}`, "", "data"},
			{"several", "events", `{"events":[{"data":1},{"data":`, `}]}`, "", "events[1].data"},
			{"escaped name", "events", `{"d\u0061ta":`, `}`, "", "data"},
			{"lines", "events", "{\"data\":1}\n{\"data\":", "}\n", lines, "data"},
			{"end", "end", `{"outcome":"completed","data":`, `}`, "", "data"},
		} {
			for _, levels := range []int{513, 5_000, 9_990} {
				a := publish(c.path, c.before+value(levels)+c.after, c.header).refused(422, "invalid")
				if a.text("field") != c.field || !strings.Contains(a.text("detail"), "512 levels") {
					t.Errorf("%s, %s, %d levels: %s", name, c.form, levels, a.body)
				}
			}
			publish(c.path, c.before+value(20_000)+c.after, c.header).refused(422, "invalid")
			if c.form != "end" {
				last = publish(c.path, c.before+value(512)+c.after, c.header).is(200).number("last")
			}
		}
	}
	if a := w.do("GET", "/v1/streams/s", ""); a.number("events") != last {
		t.Errorf("of the refused bodies something was appended: %s", a.body)
	}
	w.do("POST", "/v1/streams/s/end", `{"outcome":"completed","data":`+objects(512)+`}`).is(200)
}

// TestTrimRemovesOldestEvents: the stream goes on, and a repetition does nothing.
func TestTrimRemovesOldestEvents(t *testing.T) {
	w := start(t, setup{})
	const path = "/v1/streams/s"
	w.do("PUT", path, "").is(201)
	w.do("PUT", "/v1/streams/other", "").is(201)
	var cursors []string
	for range 3 {
		cursors = append(cursors, w.do("POST", path+"/events", `{"data":1}`).is(200).text("cursor"))
	}
	trim := func(after string) *answer { return w.do("POST", path+"/trim", `{"after":"`+after+`"}`) }
	for range 2 {
		if a := trim(cursors[1]).is(200); a.number("events") != 1 || a.text("window", "earliest") != cursors[1] {
			t.Errorf("after a trim %s", a.body)
		}
	}
	if a := trim(cursors[0]).is(200); a.number("events") != 1 {
		t.Errorf("after a trim of what is gone %s", a.body)
	}
	trim("earliest").is(200)
	ahead := strings.Replace(cursors[2], "3.", "9.", 1)
	trim(ahead).refused(409, "cursor_ahead")
	trim("x").refused(400, "cursor_malformed")
	foreign := w.do("POST", "/v1/streams/other/events", `{"data":1}`).is(200).text("cursor")
	trim(foreign).refused(400, "cursor_foreign")
	w.do("POST", path+"/trim", "").is(200)
	if a := w.do("POST", path+"/events", `{"data":4}`).is(200); a.number("first") != 4 {
		t.Errorf("after all was removed %s", a.body)
	}
	page := w.do("GET", path+"/events", "").is(200)
	if strings.Contains(page.body, `"seq":3`) || !strings.Contains(page.body, `"seq":4`) {
		t.Errorf("kept are %s", page.body)
	}
	w.do("DELETE", path, "").is(204)
	w.do("POST", path+"/trim", "").refused(404, "not_found")
}

// TestOldEventsOfOpenStreamAreGone: of streams and of executions, whose commands go on.
func TestOldEventsOfOpenStreamAreGone(t *testing.T) {
	w := start(t, setup{})
	const each = `"retention":{"max_age_each":"1ms"}`
	if a := w.do("PUT", "/v1/streams/s", `{`+each+`}`).is(201); !strings.Contains(a.body, each) {
		t.Errorf("%s is not in %s", each, a.body)
	}
	w.do("PUT", "/v1/streams/t", `{"retention":{"max_age_each":"-1ms"}}`).refused(422, "invalid")
	run := `{"command":"echo gone; exec cat","stdin_open":true,`
	w.do("POST", "/v1/executions", run+`"id":"bad","retention":{"max_age_each":"-1ms"}}`).refused(422, "invalid")
	w.do("POST", "/v1/executions", run+`"id":"x",`+each+`}`).is(201)
	w.do("POST", "/v1/streams/s/events", `{"data":1}`).is(200)
	w.eventually("the event is gone", func() bool {
		w.do("POST", "/v1/store/sweep", "").is(200)
		at := w.do("GET", "/v1/streams/s", "").is(200)
		return at.number("events") == 0 && strings.HasPrefix(at.text("window", "earliest"), "1.")
	})
	w.eventually("the output is gone", func() bool {
		w.do("POST", "/v1/store/sweep", "").is(200)
		return w.do("GET", "/v1/executions/x/stdout", "").status == 410
	})
	if a := w.do("GET", "/v1/executions/x", "").is(200); a.text("status") != "running" {
		t.Errorf("the command is %s", a.text("status"))
	}
}

// TestIdleStreamIsEnded: a stream with a bound is ended by a sweep and says why. Runs have no bound.
func TestIdleStreamIsEnded(t *testing.T) {
	w := start(t, setup{})
	const body = `{"retention":{"max_idle":"1h0m0s"},"labels":{"a":"b"}}`
	for _, status := range []int{201, 200} {
		a := w.do("PUT", "/v1/streams/hour", body).is(status)
		for _, part := range []string{`"retention":{"max_idle":"1h0m0s"}`, `"labels":{"a":"b"}`} {
			if !strings.Contains(a.body, part) {
				t.Errorf("%s is not in %s", part, a.body)
			}
		}
	}
	w.do("PUT", "/v1/streams/hour", `{"retention":{"max_idle":"2h"},"labels":{"a":"b"}}`).refused(409, "conflict")
	w.do("PUT", "/v1/streams/s", `{"retention":{"max_idle":"-1h"}}`).refused(422, "invalid")
	w.do("PUT", "/v1/streams/s", `{"labels":{"reprise.max_idle":"1h"}}`).refused(422, "invalid")
	w.do("POST", "/v1/executions", `{"command":"true","retention":{"max_idle":"1h"}}`).refused(422, "invalid")

	w.do("PUT", "/v1/streams/short", `{"retention":{"max_idle":"1ms"}}`).is(201)
	w.do("POST", "/v1/streams/short/events", `{"data":1}`).is(200)
	ended := int64(0)
	w.eventually("the idle stream is ended", func() bool {
		ended += w.do("POST", "/v1/store/sweep", "").is(200).number("idle")
		return ended > 0
	})
	page := w.do("GET", "/v1/streams/short/events", "").is(200)
	if part := `"outcome":"failed","data":{"code":"idle","max_idle":"1ms"}}`; !strings.Contains(page.body, part) {
		t.Errorf("%s is not in %s", part, page.body)
	}
	w.do("POST", "/v1/streams/short/events", `{"data":2}`).refused(409, "stream_ended")
	if a := w.do("GET", "/v1/streams/hour", "").is(200); ended != 1 || a.text("status") != "open" {
		t.Errorf("%d streams were ended, the other one is %s", ended, a.text("status"))
	}
}
