package execd_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"reprise/internal/face/facetest"
)

// TestRefusals have the status and the code of execd.
func TestRefusals(t *testing.T) {
	w := start(t, nil)
	for _, r := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/command", `{`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", ``, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":1}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"a","argv":["a"]}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"argv":[""]}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"a\u0000b"}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"a","gid":1}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"a","uid":0,"gid":7}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"a","uid":4294967295}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"a","timeout":-1}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"a","timeout":9223372036854775807}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"a","envs":{"A=B":"c"}}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/command", `{"command":"` + strings.Repeat("x", 9<<20) + `"}`, 413, "RUNTIME_ERROR"},
		{"DELETE", "/command", "", 400, "MISSING_QUERY"},
		{"DELETE", "/command?id=none", "", 500, "RUNTIME_ERROR"},
		{"GET", "/command/status/none", "", 404, "INVALID_REQUEST_BODY"},
		{"GET", "/command/none/logs", "", 404, "INVALID_REQUEST_BODY"},
		{"GET", "/command/none/resume", "", 404, "INVALID_REQUEST_BODY"},
		{"GET", "/command/none/other", "", 404, "INVALID_REQUEST_BODY"},
		{"POST", "/session/none/run", `{"command":" "}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/code/context", `{}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/code/context", `{"language":"cobol"}`, 500, "RUNTIME_ERROR"},
		{"GET", "/code/contexts/none", "", 404, "CONTEXT_NOT_FOUND"},
		{"DELETE", "/code/contexts", "", 400, "MISSING_QUERY"},
		{"POST", "/code", `{}`, 400, "INVALID_REQUEST_BODY"},
		{"POST", "/code", `{"code":"1","context":{"id":"none"}}`, 404, "CONTEXT_NOT_FOUND"},
		{"POST", "/code", `{"code":"1","context":{"language":"sql"}}`, 500, "RUNTIME_ERROR"},
		{"GET", "/pty/x", "", 404, "RUNTIME_ERROR"},
		{"PUT", "/command", "", 405, "INVALID_REQUEST_BODY"},
	} {
		status, text, _ := w.do(r.method, r.path, r.body)
		if status != r.status || !strings.Contains(text, `{"code":"`+r.code+`","message":"`) {
			t.Errorf("%s %s %.60s: %d %.200s", r.method, r.path, r.body, status, text)
		}
	}
}

// TestEverybodySeesTheirOwn: each path asks for a scope, and nothing is another tenant's.
func TestEverybodySeesTheirOwn(t *testing.T) {
	w := start(t, nil)
	id := w.run("/command", `{"command":"echo secret"}`)[0].Text
	session := opened(w, "/session", "", "session_id")
	for _, r := range []struct {
		token, method, path, body string
		status                    int
	}{
		{"", "GET", "/ping", "", 401},
		{"wrong-0123456789-0123456789", "POST", "/command", `{"command":"true"}`, 401},
		{facetest.Reader, "GET", "/ping", "", 200},
		{facetest.Reader, "GET", "/command/" + id + "/logs", "", 200},
		{facetest.Reader, "POST", "/command", `{"command":"true"}`, 403},
		{facetest.Reader, "DELETE", "/command?id=" + id, "", 403},
		{facetest.Reader, "POST", "/session", "", 403},
		{facetest.Reader, "POST", "/session/" + session + "/run", `{"command":"true"}`, 403},
		{facetest.Reader, "DELETE", "/session/" + session, "", 403},
		{facetest.Reader, "POST", "/code", `{"code":"1"}`, 403},
		{facetest.Reader, "POST", "/files/upload", "", 403},
		{facetest.Reader, "DELETE", "/directories?path=x", "", 403},
		{facetest.Runner, "POST", "/command", `{"command":"true"}`, 200},
		{facetest.Runner, "POST", "/command", `{"command":"true","uid":0}`, 403},
		{facetest.Bounded, "POST", "/command", `{"command":"true"}`, 403},
		{facetest.Bounded, "POST", "/session", "", 403},
		{facetest.Bounded, "GET", "/command/" + id + "/logs", "", 404},
		{facetest.Bounded, "GET", "/command/" + id + "/resume", "", 404},
		{facetest.Bounded, "DELETE", "/command?id=" + id, "", 500},
		{facetest.Bounded, "POST", "/session/" + session + "/run", `{"command":"true"}`, 404},
		{facetest.Bounded, "GET", "/files/info?path=" + w.Dir, "", 404},
		{facetest.Stranger, "GET", "/command/status/" + id, "", 404},
		{facetest.Stranger, "GET", "/command/" + id + "/logs", "", 404},
		{facetest.Stranger, "GET", "/command/" + id + "/resume", "", 404},
		{facetest.Stranger, "DELETE", "/command?id=" + id, "", 500},
		{facetest.Stranger, "DELETE", "/session/" + session, "", 404},
		{facetest.Stranger, "POST", "/session/" + session + "/run", `{"command":"true"}`, 404},
		{facetest.Stranger, "GET", "/files/info?path=" + w.Dir, "", 404},
	} {
		w.token = r.token
		status, text, _ := w.do(r.method, r.path, r.body)
		mayRead := r.token == facetest.Reader && strings.HasSuffix(r.path, "logs")
		if status != r.status || strings.Contains(text, "secret") != mayRead {
			t.Errorf("%.8q %s %s: %d %s", r.token, r.method, r.path, status, text)
		}
		if status == http.StatusUnauthorized && !strings.HasPrefix(text, `{"error":"Unauthorized: `) {
			t.Errorf("%s: %s", r.path, text)
		}
	}
}

// TestRepeatedCredential is none: a proxy may have looked at the other one.
func TestRepeatedCredential(t *testing.T) {
	w := start(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/execd/ping", http.NoBody)
	w.OK(err)
	r.Header.Add("X-EXECD-ACCESS-TOKEN", facetest.Owner)
	r.Header.Add("X-EXECD-ACCESS-TOKEN", facetest.Reader)
	res, err := w.Client.Do(r)
	w.OK(err)
	w.OK(res.Body.Close())
	if res.StatusCode != http.StatusUnauthorized {
		t.Error(res.Status)
	}
}

// TestLifecycle tells an SDK where execd is.
func TestLifecycle(t *testing.T) {
	w := start(t, nil)
	w.token = ""
	get := func(header ...string) (int, map[string]any) {
		res := w.send("GET", "/v1/sandboxes/any/endpoints/44772?use_server_proxy=false", "", header...)
		defer res.Body.Close()
		var answer map[string]any
		w.OK(json.NewDecoder(res.Body).Decode(&answer))
		return res.StatusCode, answer
	}
	if status, answer := get(); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %v", status, answer)
	}
	status, answer := get("OPEN-SANDBOX-API-KEY: " + facetest.Owner)
	headers, _ := answer["headers"].(map[string]any)
	if status != http.StatusOK || "http://"+answer["endpoint"].(string) != w.URL+"/execd" ||
		headers["X-EXECD-ACCESS-TOKEN"] != facetest.Owner {
		t.Errorf("%d %v", status, answer)
	}
}

// TestMetrics have all members.
func TestMetrics(t *testing.T) {
	w := start(t, nil)
	var m map[string]float64
	w.OK(json.Unmarshal([]byte(must(w, "GET", "/metrics", "")), &m))
	if m["cpu_count"] < 1 || m["mem_total_mib"] <= m["mem_used_mib"] || m["mem_used_mib"] <= 0 ||
		m["cpu_used_pct"] < 0 || m["timestamp"] == 0 {
		t.Errorf("%v", m)
	}
	if text := must(w, "GET", "/v1/isolated/capabilities", ""); !strings.Contains(text, `"available":false`) {
		t.Error(text)
	}
}
