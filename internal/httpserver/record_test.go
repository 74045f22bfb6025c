package httpserver_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"reprise/internal/httpserver"
)

// TestRequestsThatAreLogged: reads that are answered are logged if all requests are, changes unless errors alone are,
// and refusals and failures always.
func TestRequestsThatAreLogged(t *testing.T) {
	t.Parallel()
	requests := []struct {
		method string
		status int
	}{{"GET", 200}, {"POST", 201}, {"GET", 404}, {"POST", 422}, {"GET", 503}}
	for wanted, want := range map[httpserver.Requests]string{
		httpserver.LogAll:     "GET 200,POST 201,GET 404,POST 422,GET 503",
		httpserver.LogChanges: "POST 201,GET 404,POST 422,GET 503",
		"":                    "POST 201,GET 404,POST 422,GET 503",
		httpserver.LogErrors:  "GET 404,POST 422,GET 503",
	} {
		var logged []string
		for _, q := range requests {
			var log bytes.Buffer
			r := httptest.NewRequestWithContext(t.Context(), q.method, "/v1/streams", nil)
			rec := httpserver.NewRecord(httptest.NewRecorder(), r)
			rec.WriteHeader(q.status)
			rec.Log(slog.New(slog.NewTextHandler(&log, nil)), wanted, r)
			if _, line, ok := strings.Cut(log.String(), "method="+q.method+" "); ok {
				_, status, _ := strings.Cut(line, "status=")
				logged = append(logged, q.method+" "+status[:3])
			}
		}
		if got := strings.Join(logged, ","); got != want {
			t.Errorf("%q logs %s, want %s", wanted, got, want)
		}
	}
}
