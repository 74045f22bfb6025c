package api_test

import (
	"strings"
	"testing"
)

// TestArtifactsAreKeptWithExecution: files that were named at the start are kept with the execution, read whole and in
// parts, and removed with it.
func TestArtifactsAreKeptWithExecution(t *testing.T) {
	w := start(t, setup{})
	work := t.TempDir()
	w.do("POST", "/v1/executions", `{"argv":["true"],"artifacts":["../x"]}`).refused(422, "invalid")
	w.do("POST", "/v1/executions",
		`{"id":"b","command":"mkdir out; seq 1 100000 >out/n; : >empty; exit 3","cwd":"`+work+
			`","artifacts":["out","empty","none"]}`).is(201)
	w.ended("b")
	a := w.do("GET", "/v1/executions/b", "").is(200)
	for _, part := range []string{
		`{"path":"empty","size":0,`, `{"path":"out/n","size":588895,`, `"artifact_notes":["none: `,
	} {
		if !strings.Contains(a.body, part) {
			t.Errorf("%q is not in %s", part, a.body)
		}
	}
	path := "/v1/executions/b/artifacts/out%2Fn"
	whole := w.do("GET", path, "").is(200)
	if len(whole.body) != 588895 || !strings.HasSuffix(whole.body, "\n100000\n") || whole.header.Get("ETag") == "" {
		t.Errorf("%d bytes, %v", len(whole.body), whole.header)
	}
	if got := w.do("GET", path, "", "Range: bytes=65530-65540").is(206); got.body != whole.body[65530:65541] {
		t.Errorf("%q", got.body)
	}
	if got := w.do("GET", path+"?offset=131072", "").is(200); got.body != whole.body[131072:] {
		t.Errorf("%d bytes from an offset on", len(got.body))
	}
	w.do("GET", path, "", "Range: bytes=588895-").is(416)
	w.wholeHead(path, whole.header.Get("Content-Length"), "Range: bytes=65530-65540")
	if got := w.do("GET", "/v1/executions/b/artifacts/empty", "").is(200); got.body != "" {
		t.Errorf("%q", got.body)
	}
	w.do("GET", "/v1/executions/b/artifacts/none", "").refused(404, "not_found")
	w.do("GET", "/v1/executions/none/artifacts/empty", "").refused(404, "not_found")
	w.do("DELETE", "/v1/executions/b", "").is(204)
	if got := w.do("GET", path, "").status; got != 404 && got != 410 {
		t.Errorf("after it was removed: %d", got)
	}
}
