package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shapes are what tries the rows of docs/compatibility.md, by the first words of their first cell: a function, or the
// file and the name of a test of another package.
var shapes = map[string]struct {
	try        func(w *fixture)
	file, test string
}{
	"event ids that are UUIDs": {try: func(w *fixture) {
		w.stream("s", "1")
		cursor := w.do("GET", "/v1/streams/s", "").is(200).text("window", "tail")
		if len(cursor) < 32 || len(cursor) > 51 {
			w.Errorf("a cursor has %d characters: %s", len(cursor), cursor)
		}
		forged := cursor[:len(cursor)-1] + "0"
		if forged == cursor {
			forged = cursor[:len(cursor)-1] + "1"
		}
		w.do("GET", "/v1/streams/s/events?after="+forged, "").refused(400, "cursor_foreign")
	}},
	"ids such as `session_42`": {try: func(w *fixture) {
		w.stream("s", "1")
		a := w.do("POST", "/v1/streams/s/events?expected_seq=2", `{"data":2}`).is(200)
		if !strings.HasPrefix(a.text("cursor"), "2.") {
			w.Errorf("the second cursor is %s", a.text("cursor"))
		}
		w.do("POST", "/v1/streams/s/events?expected_seq=42", `{"data":2}`).refused(409, "conflict")
	}},
	"binary output in `data`": {try: func(w *fixture) {
		w.do("PUT", "/v1/streams/s", "").is(201)
		w.do("POST", "/v1/streams/s/events", "\xff\xfe", "Content-Type: application/octet-stream").is(200)
		if a := w.do("GET", "/v1/streams/s/events", "").is(200); !strings.Contains(a.body, `"base64":"//4="`) {
			w.Errorf("bytes are shown as %s", a.body)
		}
	}},
	"`replay_events_after(id)` and": {
		file: "sdk/python/tests/test_readme.py",
		test: `"async with client.follow"`,
	},
	"the answer to a call read from": {
		file: "mcp/mcphttp/resume_test.go",
		test: "TestOnlyTheDisconnectedStreamIsReplayed",
	},
	"Kafka as a store": {
		file: "internal/archive/kafkaarchive/kafkaarchive_test.go",
		test: "TestTopicHoldsWhatWasPut",
	},
	"RocksDB, Memcached": {
		file: "internal/storeurl/secret_test.go",
		test: `"unknown"`,
	},
	"keys in Redis that expire": {
		file: "store/redisstore/ttl_test.go",
		test: "TestKeysOfEndedStreamsExpire",
	},
	"a resumption token": {
		file: "mcp/mcphttp/resume_test.go",
		test: "TestResumeInMidCallOnEachVersion",
	},
	"manifests for Azure": {
		file: "cmd/reprise/deploy_test.go",
		test: "kubernetes",
	},
	"an event store with wrappers": {
		file: "internal/storeurl/wrappers_test.go",
		test: "compress+encrypt",
	},
	"an audited store": {
		file: "internal/audit/audit_test.go",
		test: "TestRecordsOfManyWritersAreWhole",
	},
	"a filtered store": {
		file: "sdk/python/tests/test_mcp_store.py",
		test: "test_a_message_that_is_not_kept_has_an_id",
	},
	"operations whose steps": {
		file: "sdk/python/tests/test_operation.py",
		test: "test_process_that_dies_in_a_step",
	},
	"a store of a tenant": {
		file: "sdk/python/tests/test_mcp_store.py",
		test: "test_tenants_are_apart",
	},
	"a session whose id is enough": {
		file: "sdk/python/tests/test_mcp.py",
		test: "test_the_answer_is_there_after_the_server_has_died",
	},
	"`event: close` with": {
		file: "sse/ssehttp/time_test.go",
		test: "TestCloseEventIsTheLast",
	},
	"followers of a removed session": {
		file: "sse/ssehttp/time_test.go",
		test: "TestRemovedStreamEndsResponse",
	},
	"a session whose events are cleared": {
		file: "internal/api/streams_test.go",
		test: "TestTrimRemovesOldestEvents",
	},
	"events that expire one by one": {
		file: "internal/api/streams_test.go",
		test: "TestOldEventsOfOpenStreamAreGone",
	},
	"the older HTTP+SSE transport": {
		file: "mcp/mcphttp/session_test.go",
		test: `"2024-11-05"`,
	},
	"ids and cursors in `structuredContent`": {
		file: "internal/mcpserver/shapes_test.go",
		test: "TestTextIsNotRepeated",
	},
	"SDKs of execd for": {
		file: "internal/face/execd/command_test.go",
		test: "TestCutAtEveryByte",
	},
	"a client in Erlang": {
		file: "scripts/check-clients",
		test: "rust",
	},
	"adding an event in less than": {
		file: "bench/race_publish.go",
		test: `"Q2"`,
	},
	"records `{event_id, session_id": {try: func(w *fixture) {
		w.stream("s", "1")
		page := w.do("GET", "/v1/streams/s/events", "").is(200)
		for _, member := range []string{`"seq":1,`, `"cursor":"1.`, `"time":"20`, `Z"`, `"type":"note"`} {
			if !strings.Contains(page.body, member) {
				w.Errorf("%s is not in %s", member, page.body)
			}
		}
	}},
	"events above 1 MB": {try: func(w *fixture) {
		w.do("PUT", "/v1/streams/s", "").is(201)
		for size, status := range map[int]int{900 << 10: 200, 1 << 20: 413} {
			w.do("POST", "/v1/streams/s/events", `{"data":"`+strings.Repeat("x", size)+`"}`).is(status)
		}
	}},
}

// TestCompatibilityPage: each row of the page of what clients of others may expect is tried, here or by the test that
// is named for it.
func TestCompatibilityPage(t *testing.T) {
	top := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(top, "docs", "compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for row := range strings.Lines(string(page)) {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| they know") {
			continue
		}
		found := ""
		for begin := range shapes {
			if strings.HasPrefix(row, "| "+begin) {
				found = begin
			}
		}
		if tried[found] = true; found == "" {
			t.Errorf("no test tries the row %.60s", row)
			continue
		}
		shape := shapes[found]
		t.Run(found, func(t *testing.T) {
			if shape.try != nil {
				shape.try(start(t, setup{}))
				return
			}
			text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(shape.file)))
			if err != nil || !strings.Contains(string(text), shape.test) {
				t.Errorf("there is no %s in %s: %v", shape.test, shape.file, err)
			}
		})
	}
	for begin := range shapes {
		if !tried[begin] {
			t.Errorf("the page has no row that begins with %q", begin)
		}
	}
}
