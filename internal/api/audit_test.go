package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/audit"
	"reprise/store/memstore"
)

// acts are the records that are kept: who, what, to what, and the result.
func (w *fixture) acts() []string {
	w.Helper()
	var list []string
	for line := range strings.Lines(
		w.do("GET", "/v1/audit/events?limit=1000", "", "Accept: application/json").is(200).body,
	) {
		var page struct {
			Events []struct{ Data json.RawMessage }
		}
		w.ok(json.Unmarshal([]byte(line), &page))
		for _, event := range page.Events {
			schema := theContract().follow("#/components/schemas/AuditRecord")
			if err := theContract().validateJSON(schema, event.Data); err != nil {
				w.Errorf("%s: %v", event.Data, err)
			}
			var e audit.Entry
			w.ok(json.Unmarshal(event.Data, &e))
			list = append(list, fmt.Sprintf("%s@%s %s %s %s", e.Principal, e.Tenant, e.Act, e.Object, e.Result))
		}
	}
	return list
}

func (w *fixture) sawAct(want string) {
	w.Helper()
	w.eventually(want+" is recorded", func() bool { return strings.Contains(strings.Join(w.acts(), "|"), want) })
}

// TestAuditTellsWhoDidWhat: each change, read, login and refusal has a record, with no secret and no content in it.
func TestAuditTellsWhoDidWhat(t *testing.T) {
	w := start(t, setup{audit: true})
	id, key := w.key("acme", "run", "publish")
	_, auditor := w.key("default", "audit")
	who := "test." + id + "@acme "
	w.with(key, func() {
		w.do("POST", "/v1/executions", `{"id":"x","command":"echo content-of-it"}`).is(201)
		w.do("PUT", "/v1/streams/a%2Fb", `{}`).is(201)
		w.do("POST", "/v1/streams/a%2Fb/events", `{"type":"note","data":"content-of-it"}`).is(200)
		w.do("GET", "/v1/streams/a%2Fb/events", "").refused(403, "forbidden")
		w.do("POST", "/v1/login", "").is(200)
	})
	w.do("GET", "/v1/streams", "", "X-Request-Id: list-1").is(200)
	made := w.do("POST", "/v1/keys", `{"name":"other","scopes":["read"]}`).is(201)
	w.with("a-wrong-token-of-somebody", func() { w.do("DELETE", "/v1/sessions/s", "").is(401) })
	w.token = auditor
	for _, want := range []string{
		who + "POST /v1/executions /v1/executions ", who + "made /v1/executions/x ",
		who + "PUT /v1/streams/{name} /v1/streams/a/b ", who + "POST /v1/streams/{name}/events /v1/streams/a/b/events ",
		who + "GET /v1/streams/{name}/events  forbidden", who + "login  ", "token@default GET /v1/streams /v1/streams ",
		"token@default POST /v1/keys /v1/keys ", "made /v1/keys/" + made.text("id"),
		"@ DELETE /v1/sessions/{id}  unauthenticated",
	} {
		w.sawAct(want)
	}
	all := w.do("GET", "/v1/audit/events?limit=1000", "").is(200).body
	for _, secret := range []string{token, key, made.text("key"), "content-of-it", "a-wrong-token"} {
		if strings.Contains(all, secret) {
			t.Errorf("the audit log holds %q", secret)
		}
	}
	if !strings.Contains(all, `"request":"list-1"`) || !strings.Contains(all, `"remote":"127.0.0.1"`) {
		t.Errorf("the audit log: %s", all)
	}
	if a := w.do("POST", "/v1/audit/check", "").is(200); a.number("records") < 10 || a.member("wrong") == nil ||
		strings.Contains(a.body, "record ") {
		t.Errorf("check: %s", a.body)
	}
	w.token = token
	w.do("GET", "/v1/streams/audit/events", "").refused(404, "not_found") // it is no stream of a tenant of theirs
}

// TestChangesFailWithTheirRecord: what cannot be recorded is not done; what reads goes on.
func TestChangesFailWithTheirRecord(t *testing.T) {
	store := &faultyStore{Store: memstore.New(nil)}
	w := start(t, setup{audit: true, store: store, api: api.Options{}})
	w.stream("s", "x")
	store.fail(func() error { return reprise.ErrUnavailable })
	w.do("DELETE", "/v1/streams/s", "").refused(503, "store_unavailable")
	w.do("GET", "/v1/streams/s/events", "").is(200)
	store.fail(func() error { return nil })
	w.do("GET", "/v1/streams/s", "").is(200)
	w.do("DELETE", "/v1/streams/s", "").is(204)
}
