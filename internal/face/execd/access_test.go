package execd_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
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
		{reader, "GET", "/ping", "", 200},
		{reader, "GET", "/command/" + id + "/logs", "", 200},
		{reader, "POST", "/command", `{"command":"true"}`, 403},
		{reader, "DELETE", "/command?id=" + id, "", 403},
		{reader, "POST", "/session", "", 403},
		{reader, "POST", "/session/" + session + "/run", `{"command":"true"}`, 403},
		{reader, "DELETE", "/session/" + session, "", 403},
		{reader, "POST", "/code", `{"code":"1"}`, 403},
		{reader, "POST", "/files/upload", "", 403},
		{reader, "DELETE", "/directories?path=x", "", 403},
		{runner, "POST", "/command", `{"command":"true"}`, 200},
		{runner, "POST", "/command", `{"command":"true","uid":0}`, 403},
		{bounded, "POST", "/command", `{"command":"true"}`, 403},
		{bounded, "POST", "/session", "", 403},
		{bounded, "GET", "/command/" + id + "/logs", "", 404},
		{bounded, "GET", "/command/" + id + "/resume", "", 404},
		{bounded, "DELETE", "/command?id=" + id, "", 500},
		{bounded, "POST", "/session/" + session + "/run", `{"command":"true"}`, 404},
		{bounded, "GET", "/files/info?path=" + w.dir, "", 404},
		{stranger, "GET", "/command/status/" + id, "", 404},
		{stranger, "GET", "/command/" + id + "/logs", "", 404},
		{stranger, "GET", "/command/" + id + "/resume", "", 404},
		{stranger, "DELETE", "/command?id=" + id, "", 500},
		{stranger, "DELETE", "/session/" + session, "", 404},
		{stranger, "POST", "/session/" + session + "/run", `{"command":"true"}`, 404},
		{stranger, "GET", "/files/info?path=" + w.dir, "", 404},
	} {
		w.token = r.token
		status, text, _ := w.do(r.method, r.path, r.body)
		mayRead := r.token == reader && strings.HasSuffix(r.path, "logs")
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
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/execd/ping", http.NoBody)
	w.ok(err)
	r.Header.Add("X-EXECD-ACCESS-TOKEN", owner)
	r.Header.Add("X-EXECD-ACCESS-TOKEN", reader)
	res, err := w.client.Do(r)
	w.ok(err)
	w.ok(res.Body.Close())
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
		w.ok(json.NewDecoder(res.Body).Decode(&answer))
		return res.StatusCode, answer
	}
	if status, answer := get(); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %v", status, answer)
	}
	status, answer := get("OPEN-SANDBOX-API-KEY: " + owner)
	headers, _ := answer["headers"].(map[string]any)
	if status != http.StatusOK || "http://"+answer["endpoint"].(string) != w.url+"/execd" ||
		headers["X-EXECD-ACCESS-TOKEN"] != owner {
		t.Errorf("%d %v", status, answer)
	}
}

// TestMetrics have all members.
func TestMetrics(t *testing.T) {
	w := start(t, nil)
	var m map[string]float64
	w.ok(json.Unmarshal([]byte(must(w, "GET", "/metrics", "")), &m))
	if m["cpu_count"] < 1 || m["mem_total_mib"] <= m["mem_used_mib"] || m["mem_used_mib"] <= 0 ||
		m["cpu_used_pct"] < 0 || m["timestamp"] == 0 {
		t.Errorf("%v", m)
	}
	if text := must(w, "GET", "/v1/isolated/capabilities", ""); !strings.Contains(text, `"available":false`) {
		t.Error(text)
	}
}
