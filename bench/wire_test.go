package bench

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
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

func TestWireGivesUpOnAServerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		w := &wire{conn: ours, in: bufio.NewReader(ours)}
		defer w.Close()
		start := time.Now()
		err := w.do(newRequest("POST", "/", "", "text/plain", nil))
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != lapTimeout {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestWireGivesEachRequestTimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() {
			in := bufio.NewReader(theirs)
			for {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				time.Sleep(lapTimeout / 2)
				_, _ = io.WriteString(theirs, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		}()
		w := &wire{conn: ours, in: bufio.NewReader(ours)}
		defer w.Close()
		for i := range 4 {
			if err := w.do(newRequest("POST", "/", "", "text/plain", nil)); err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
		}
	})
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
