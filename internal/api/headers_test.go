package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// wholeHead checks that a HEAD is answered for the whole resource, since Range is defined for GET only (RFC 9110,
// section 14.2).
func (w *fixture) wholeHead(path, length string, headers ...string) {
	w.Helper()
	a := w.do("HEAD", path, "", headers...).is(200)
	if a.body != "" || a.header.Get("Content-Range") != "" || a.header.Get("Content-Length") != length {
		w.Errorf("HEAD %s %q: %q, %v", path, headers, a.body, a.header)
	}
}

// TestRepeatedHeadersAreRefused: a header that has one value is refused if it comes twice (RFC 9110, section 5.3), also
// with equal values, whoever the sender is. Other headers are lists.
func TestRepeatedHeadersAreRefused(t *testing.T) {
	w := start(t, setup{})
	w.do("PUT", "/v1/streams/s", `{}`).is(201)
	w.do("POST", "/v1/streams/s/events", `{"events":[{"type":"a","data":1}]}`).is(200)
	bearer := "Bearer " + token
	for _, c := range []struct {
		method, path, header string
		values               []string
		status               int
	}{
		{"GET", "/v1/streams/s", "Authorization", []string{bearer, bearer}, 400},
		{"GET", "/v1/streams/s", "Authorization", []string{"Bearer x", bearer}, 400},
		{"GET", "/v1/streams/s/events", "Last-Event-ID", []string{"0", "0"}, 400},
		{"POST", "/v1/executions", "Idempotency-Key", []string{"a", "b"}, 400},
		{"GET", "/v1/executions/x/events", "Execution-Hold", []string{"a", "b"}, 400},
		{"GET", "/v1/executions/x/stdout", "Range", []string{"bytes=0-1", "bytes=2-3"}, 400},
		{"POST", "/v1/streams/s/events", "Producer-Id", []string{"p", "q"}, 400},
		{"GET", "/v1/streams/s", "Accept", []string{"application/json", "text/plain"}, 200},
	} {
		t.Run(fmt.Sprint(c.header, c.values), func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, w.url+c.path, strings.NewReader(""))
			w.ok(err)
			req.Header.Set("Authorization", bearer)
			req.Header[c.header] = c.values
			res, err := http.DefaultClient.Do(req)
			w.ok(err)
			body, err := io.ReadAll(res.Body)
			w.ok(err)
			w.ok(res.Body.Close())
			if res.StatusCode != c.status {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			named := fmt.Sprintf(`"field":%q`, http.CanonicalHeaderKey(c.header))
			if c.status == 400 && (!strings.Contains(string(body), `"code":"invalid"`) ||
				!strings.Contains(string(body), named)) {
				t.Errorf("%s", body)
			}
		})
	}
}
