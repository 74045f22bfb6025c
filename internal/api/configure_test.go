package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"reprise"
)

func TestPatchChangesStream(t *testing.T) {
	w := start(t, setup{})
	const path = "/v1/streams/s"
	w.do("PUT", path, `{"retention":{"max_events":3},"labels":{"os":"linux","old":"x"}}`).is(201)
	publish := func(n int) {
		for i := range n {
			w.do("POST", path+"/events", fmt.Sprintf(`{"data":%d}`, i)).is(200)
		}
	}
	publish(5)
	a := w.do("PATCH", path, `{"retention":{"max_events":6,"max_age":"2h"},"labels":{"team":"a","old":null}}`).is(200)
	var shown struct {
		Labels    map[string]string
		Retention struct {
			MaxEvents int    `json:"max_events"`
			MaxAge    string `json:"max_age"`
		}
	}
	if err := json.Unmarshal([]byte(a.body), &shown); err != nil || len(shown.Labels) != 2 ||
		shown.Labels["team"] != "a" || shown.Labels["os"] != "linux" || shown.Retention.MaxEvents != 6 ||
		shown.Retention.MaxAge != "2h0m0s" {
		t.Errorf("after the change: %s, %v", a.body, err)
	}
	publish(4)
	if a = w.do("GET", path, "").is(200); a.number("events") != 6 {
		t.Errorf("with the larger bound %s", a.body)
	}
	if a = w.do("PATCH", path, `{"retention":{"max_events":2}}`).is(200); a.number("events") != 2 {
		t.Errorf("with the smaller bound %s", a.body)
	}
	for _, each := range []string{`"max_age_each":"1h0m0s"`, `"max_age_each":"0s"`} {
		a = w.do("PATCH", path, `{"retention":{`+each+`}}`).is(200)
		if strings.Contains(a.body, each) != strings.Contains(each, "1h") || strings.Contains(a.body, "reprise.") {
			t.Errorf("with %s: %s", each, a.body)
		}
	}
	w.do("PATCH", path, `{}`).is(200)
	w.do("POST", path+"/end", `{"outcome":"completed"}`).is(200)
	before := w.do("GET", path, "").is(200).text("expires")
	if a = w.do("PATCH", path, `{"retention":{"max_age":"48h"}}`).is(200); a.text("expires") == before {
		t.Errorf("the expiry of the ended stream is still %s", before)
	}
	w.do("PUT", path, `{"retention":{"max_events":3},"labels":{"os":"linux","old":"x"}}`).refused(409, "conflict")
	w.do("PUT", path, `{"retention":{"max_events":2,"max_age":"48h"},"labels":{"os":"linux","team":"a"}}`).is(200)
}

func TestPatchRefuses(t *testing.T) {
	w := start(t, setup{})
	w.do("PUT", "/v1/streams/s", "").is(201)
	for body, status := range map[string]int{
		``: 400, `{`: 400, `{"retention":{"max_events":-1}}`: 422, `{"retention":{"max_age":"-1s"}}`: 422,
		`{"retention":{"max_idle":"-1s"}}`: 422, `{"retention":{"max":1}}`: 422, `{"meta":"x"}`: 422,
		`{"labels":{"` + reprise.AccountLabel + `":"other"}}`: 422, `{"labels":{"reprise.max_idle":"1s"}}`: 422,
		`{"labels":{"reprise.max_age_each":"1s"}}`: 422, `{"retention":{"max_age_each":"-1s"}}`: 422,
		`{"labels":{"":"v"}}`: 422, `{"labels":{"k":"` + strings.Repeat("v", 257) + `"}}`: 422,
		`{"labels":{"k":1}}`: 422, `{"retention":{"max_events":9223372036854775808}}`: 422,
	} {
		a := w.do("PATCH", "/v1/streams/s", body)
		if a.status != status {
			t.Errorf("%.80s: %d %s, want %d", body, a.status, a.body, status)
		}
	}
	labels := map[string]string{}
	for i := range 65 {
		labels[fmt.Sprint("label", i)] = "v"
	}
	text, _ := json.Marshal(map[string]any{"labels": labels})
	w.do("PATCH", "/v1/streams/s", string(text)).refused(400, "invalid")
	w.do("PATCH", "/v1/streams/none", `{}`).refused(404, "not_found")
	w.do("PATCH", "/v1/streams/execution:x", `{}`).refused(400, "invalid")
	w.do("PATCH", "/v1/executions/none", `{}`).refused(404, "not_found")
	w.do("DELETE", "/v1/streams/s", "").is(204)
	w.do("PATCH", "/v1/streams/s", `{}`).refused(404, "not_found")
}

// TestPatchNeedsControl: it can remove events, so it takes what removing the stream takes, and another tenant's stream
// is like one that does not exist (G8).
func TestPatchNeedsControl(t *testing.T) {
	w := start(t, setup{})
	w.do("PUT", "/v1/streams/s", "").is(201)
	_, publisher := w.key(reprise.DefaultTenant, "publish", "read")
	_, other := w.key("other", "control", "read")
	_, prefixed := w.key(reprise.DefaultTenant, "control:builds/", "read")
	w.with(publisher, func() { w.do("PATCH", "/v1/streams/s", `{}`).refused(403, "forbidden") })
	w.with(other, func() { w.do("PATCH", "/v1/streams/s", `{}`).refused(404, "not_found") })
	w.with(prefixed, func() { w.do("PATCH", "/v1/streams/s", `{}`).refused(404, "not_found") })
}

// TestPatchChangesExecution: the output that is no longer kept goes, the expiry moves, and the request that has started
// it still finds it.
func TestPatchChangesExecution(t *testing.T) {
	w := start(t, setup{})
	const run = `{"id":"e","command":"for i in 1 2 3 4 5 6; do echo $i; sleep 0.01; done","labels":{"a":"1"}}`
	w.do("POST", "/v1/executions", run).is(201)
	w.ended("e")
	path := "/v1/executions/e"
	a := w.do("PATCH", path, `{"retention":{"max_events":2,"max_age":"48h"},"labels":{"b":"2","a":null}}`).is(200)
	if !strings.Contains(a.body, `"labels":{"b":"2"}`) || a.text("outcome") != "exited" {
		t.Errorf("after the change: %s", a.body)
	}
	if page := w.do("GET", path+"/events", "").is(200); strings.Contains(page.body, `"seq":2,`) ||
		!strings.Contains(page.body, `"type":"end"`) {
		t.Errorf("kept are %s", page.body)
	}
	w.do("GET", path+"/stdout", "").refused(410, "cursor_expired")
	again := w.do("POST", "/v1/executions", run).is(200)
	if again.text("outcome") != "exited" {
		t.Errorf("started again: %s", again.body)
	}
	w.do("POST", "/v1/executions", strings.Replace(run, "6;", "7;", 1)).refused(409, "conflict")
	w.do("PATCH", path, `{"retention":{"max_idle":"1h"}}`).refused(422, "invalid")
	labels := map[string]string{}
	for i := range 61 {
		labels[fmt.Sprint("label", i)] = "v"
	}
	text, _ := json.Marshal(map[string]any{"labels": labels})
	w.do("PATCH", path, string(text)).refused(422, "invalid")
	w.do("DELETE", path, "").is(204)
	w.do("PATCH", path, `{}`).refused(404, "not_found")
}
