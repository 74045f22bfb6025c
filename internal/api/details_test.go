package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestRefusalNamesTheField: the problem of an invalid parameter or member names it, and the detail says what is wrong
// with it.
func TestRefusalNamesTheField(t *testing.T) {
	w := start(t, setup{})
	w.stream("ticks", "1")
	w.do("POST", "/v1/executions", `{"id":"run","argv":["true"]}`).is(201)
	w.ended("run")
	for _, c := range []struct{ method, path, body, field, detail string }{
		{"GET", "/v1/streams/ticks/events?gap=maybe", "", "gap", `"maybe"`},
		{"GET", "/v1/streams/ticks/events?cursors=maybe", "", "cursors", `"maybe"`},
		{"GET", "/v1/streams/ticks/events?types=a,,b", "", "types", `"a,,b"`},
		{"GET", "/v1/executions?cursor=bogus", "", "cursor", "next_cursor"},
		{"GET", "/v1/streams?cursor=bogus", "", "cursor", "next_cursor"},
		{"GET", "/v1/sessions?cursor=bogus", "", "cursor", "next_cursor"},
		{"GET", "/v1/executions?lmit=1", "", "lmit", `no parameter "lmit"; it takes session`},
		{"GET", "/v1/executions/run?x=1", "", "x", "takes no parameters"},
		{"POST", "/v1/executions", `{"argvv":["true"]}`, "argvv", "no such member"},
		{"POST", "/v1/executions", `{"argv":["true"],"argv":["false"]}`, "argv", "given twice"},
		{"POST", "/v1/executions", `{"argv":["echo","\\\ud800"]}`, "argv", "half of a character"},
		{"POST", "/v1/executions", `{"command":"\ud800 \udc00"}`, "command", "half of a character"},
		{"POST", "/v1/executions", `{"command":"\udc00"}`, "command", "half of a character"},
		{"POST", "/v1/executions", `{"command":"\ud83d\ude00","argv":["\\ud800"],"x":1}`, "x", "no such member"},
	} {
		var p struct{ Field, Detail string }
		w.ok(json.Unmarshal([]byte(w.do(c.method, c.path, c.body).body), &p))
		if p.Field != c.field || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s %s %s: field %q, detail %q", c.method, c.path, c.body, p.Field, p.Detail)
		}
	}
}

// For JSON Schema a number is an integer by its value, however it is written.
func TestIntegersHoweverTheyAreWritten(t *testing.T) {
	w := start(t, setup{})
	for i, number := range []string{"24000", "24000.0", "24000.000", "24e3", "2.4E+4", "240000e-1", "0.24e5"} {
		body := fmt.Sprintf(`{"retention": {"max_events": %s , "max_bytes":1e3},"labels":{"n":"1e3"}}`, number)
		var got struct {
			Retention struct {
				MaxEvents int `json:"max_events"`
				MaxBytes  int `json:"max_bytes"`
			}
			Labels map[string]string
		}
		w.ok(json.Unmarshal([]byte(w.do("PUT", fmt.Sprintf("/v1/streams/s%d", i), body).body), &got))
		if got.Retention.MaxEvents != 24000 || got.Retention.MaxBytes != 1000 || got.Labels["n"] != "1e3" {
			t.Errorf("%s: %+v", body, got)
		}
	}
	for number, detail := range map[string]string{
		"24782.5": "24782.5 does not belong here: the number is not whole", "1e-1": "not whole",
		"1e400": "1e400 does not belong here: the number is too large", "1e999999999999999999999": "too large",
		"1e19": "a number 10000000000000000000 does not", "9223372036854775808.0": "does not belong here",
		`"24782.0"`: "a string does not belong here",
	} {
		body := fmt.Sprintf(`{"retention":{"max_events":%s}}`, number)
		got := w.do("PUT", "/v1/streams/s", body).refused(422, "invalid")
		if !strings.Contains(got.text("detail"), detail) || got.text("field") != "retention.max_events" {
			t.Errorf("%s: %s", number, got.body)
		}
	}
	w.do("PUT", "/v1/streams/s", `{"retention":{"max_events":24782.}}`).refused(400, "invalid")
	w.do("PUT", "/v1/streams/data", `{}`)
	w.do("POST", "/v1/streams/data/events", `{"data":1.0}`)
	if page := w.do("GET", "/v1/streams/data/events", "").body; !strings.Contains(page, `"data":1.0`) {
		t.Errorf("published data are changed: %s", page)
	}
}

// TestRequestWithoutABodyIsToldSo: a request without a body has no media type that could be wrong.
func TestRequestWithoutABodyIsToldSo(t *testing.T) {
	w := start(t, setup{})
	w.stream("ticks", "1")
	for _, path := range []string{"/v1/streams/ticks/end", "/v1/executions"} {
		var p struct{ Detail string }
		w.ok(json.Unmarshal([]byte(w.do("POST", path, "", "Content-Type: ").refused(400, "invalid").body), &p))
		if p.Detail != "a body of JSON is needed" {
			t.Errorf("%s: %q", path, p.Detail)
		}
	}
}

// TestPathThatIsOffNeedsACredential: only those with a credential are told which options the server lacks.
func TestPathThatIsOffNeedsACredential(t *testing.T) {
	w := start(t, setup{})
	path := "/v1/audit/events" // setup.audit is not set
	w.do("GET", path, "").refused(404, "not_found")
	for _, credential := range []string{"", "a-wrong-token"} {
		w.with(credential, func() { w.do("GET", path, "").refused(401, "unauthenticated") })
	}
}
