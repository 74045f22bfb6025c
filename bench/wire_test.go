package bench

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestWireReadsBodiesWithALengthAndInChunks(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte(strings.Repeat("x", n))) // net/http sends long bodies in chunks
	}))
	defer server.Close()
	w, err := dialWire(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, n := range []int{0, 10, 100_000, 1} {
		request := newRequest("POST", "/"+strconv.Itoa(n), "", "text/plain", nil)
		if err := w.do(request); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if body, err := w.ask(request); err != nil || len(body) != n {
			t.Fatalf("%d bytes of %d: %v", len(body), n, err)
		}
	}
	if err := w.do(newRequest("POST", "/tea", "", "text/plain", nil)); err == nil {
		t.Error("refused: no error")
	}
	if err := w.do(newRequest("POST", "/1", "", "text/plain", nil)); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

func TestLapWireDialsAgainAfterTheServerClosedIt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	w := &lapWire{addr: server.Listener.Addr().String()}
	defer func() { _ = w.Close() }()
	request := newRequest("POST", "/", "", "text/plain", nil)
	if err := w.do(request); err != nil {
		t.Fatal(err)
	}
	first := w.wire
	if err := w.do(request); err != nil || w.wire != first {
		t.Errorf("at once: %v, another connection: %t", err, w.wire != first)
	}
	server.CloseClientConnections()
	w.used = time.Time{} // long ago
	if err := w.do(request); err != nil {
		t.Errorf("after it was idle: %v", err)
	}
}
