package api_test

import (
	"path/filepath"
	"strings"
	"testing"

	"reprise"
	"reprise/store/sqlitestore"
)

// What has ended is served whole after a restart, and cursors from before are still good.
func TestRestartOverSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reprise.db")
	keys := reprise.NewKeyset()
	var cursor, before string
	t.Run("before", func(t *testing.T) {
		store, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := start(t, setup{store: store, keys: keys})
		w.do("POST", "/v1/executions", `{"id":"x","command":"echo one; echo two"}`).is(201)
		w.ended("x")
		w.do("PUT", "/v1/streams/s", `{}`).is(201)
		cursor = w.do("POST", "/v1/streams/s/events", `{"data":1}`).is(200).text("cursor")
		w.do("POST", "/v1/streams/s/events", `{"data":2}`).is(200)
		before = w.do("GET", "/v1/executions/x/events", "", asSSE).is(200).body
	})
	store, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, setup{store: store, keys: keys})
	if after := w.do("GET", "/v1/executions/x/events", "", asSSE).is(200).body; after != before {
		t.Errorf("before the restart %q, after it %q", before, after)
	}
	if got := w.do("GET", "/v1/executions/x/stdout", "").is(200).body; got != "one\ntwo\n" {
		t.Errorf("stdout %q", got)
	}
	body := w.do("GET", "/v1/streams/s/events?after="+cursor, "").is(200).body
	if strings.Contains(body, `"seq":1,`) || !strings.Contains(body, `"seq":2,`) {
		t.Errorf("resumed: %s", body)
	}
	w.do("POST", "/v1/streams/s/end", `{"outcome":"completed"}`).is(200)
	w.do("GET", "/readyz", "").is(200)
}
