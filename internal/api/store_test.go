package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise"
	"reprise/store/sqlitestore"
)

func TestStoreIsShownWhileItRuns(t *testing.T) {
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := start(t, setup{store: store})
	w.do("PUT", "/v1/streams/s", `{}`).is(201)
	w.do("POST", "/v1/streams/s/events", `{"data":1}`).is(200)
	var stats struct {
		Tenants map[string]struct{ Streams, Events, Bytes int64 }
		SQLite  struct {
			FileBytes int64 `json:"file_bytes"`
		}
	}
	w.ok(json.Unmarshal([]byte(w.do("GET", "/v1/store", "").is(200).body), &stats))
	if size := stats.Tenants["default"]; size.Streams != 1 || size.Events != 1 || size.Bytes == 0 {
		t.Errorf("%+v", stats)
	}
	var advised struct {
		Advice struct {
			Streams, Open int64
			OpenBytes     int64 `json:"open_bytes"`
		}
	}
	w.ok(json.Unmarshal([]byte(w.do("GET", "/v1/store?advise=true", "").is(200).body), &advised))
	if a := advised.Advice; a.Streams != 1 || a.Open != 1 || a.OpenBytes == 0 {
		t.Errorf("%+v", a)
	}
	w.do("GET", "/v1/store?advise=maybe", "").is(400)
	if stats.SQLite.FileBytes == 0 {
		t.Errorf("the file has %d bytes", stats.SQLite.FileBytes)
	}
	const swept = `{"streams":0,"events":0,"bytes":0,"idle":0}`
	if got := w.do("POST", "/v1/store/sweep", "").is(200).body; got != swept+"\n" {
		t.Errorf("swept %s", got)
	}
	lines := strings.Fields(w.do("POST", "/v1/store/check", "").is(200).body)
	if len(lines) != 1 || !strings.HasPrefix(lines[0], `{"checked":{"streams":`) ||
		!strings.HasSuffix(lines[0], `"problems":0}}`) {
		t.Errorf("checked %q", lines)
	}
	w.do("POST", "/v1/store/check?opaque=maybe", "").is(400)
}

// TestBackupOverHTTP: what comes is a store with the events, and the server keeps no copy.
func TestBackupOverHTTP(t *testing.T) {
	temp := t.TempDir()
	w := start(t, setup{temp: temp})
	w.do("PUT", "/v1/streams/s", `{}`).is(201)
	w.do("POST", "/v1/streams/s/events", `{"data":"kept"}`).is(200)
	backup := filepath.Join(t.TempDir(), "backup.db")
	w.ok(os.WriteFile(backup, []byte(w.do("POST", "/v1/store/backup", "").is(200).body), 0o600))
	store, err := sqlitestore.Open(t.Context(), backup, nil)
	w.ok(err)
	defer store.Close()
	page, err := store.Read(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}, 0, 1<<20)
	w.ok(err)
	if len(page.Batches) != 1 || !strings.Contains(string(page.Batches[0].Bytes), `"kept"`) {
		t.Errorf("%+v", page)
	}
	w.eventually("the server has removed its copy", func() bool { // the answer is complete before that
		left, err := os.ReadDir(temp)
		w.ok(err)
		return len(left) == 0
	})
}
