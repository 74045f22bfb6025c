package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// initialize is the first request of a session.
func initialize(version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		version)
}

// request is a POST to the gateway.
func (f *fixture) request(session, body string) *http.Response {
	f.Helper()
	r, err := http.NewRequest(http.MethodPost, f.http.URL, strings.NewReader(body))
	check(f, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := f.client.Do(r)
	check(f, err)
	return resp
}

// post sends a POST and returns all of the answer.
func (f *fixture) post(session, body string) (status int, answer string) {
	f.Helper()
	resp := f.request(session, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(f, err)
	return resp.StatusCode, string(text)
}
