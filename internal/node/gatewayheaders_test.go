package node

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestGatewayRefusesRepeatedHeaders: they reach no endpoint and no upstream.
func TestGatewayRefusesRepeatedHeaders(t *testing.T) {
	n := &Node{Options: Options{Logger: slog.New(slog.DiscardHandler)}}
	reached := 0
	h := n.logged(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
	for _, bearers := range [][]string{{"Bearer a", "Bearer b"}, {"Bearer a"}} {
		r.Header["Authorization"] = bearers
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		refused := w.Code == 400 && strings.Contains(w.Body.String(), `"field":"Authorization"`)
		if refused != (len(bearers) > 1) {
			t.Errorf("%d values: %d %s", len(bearers), w.Code, w.Body)
		}
	}
	if reached != 1 {
		t.Errorf("%d requests reached the endpoint, want 1", reached)
	}
}
