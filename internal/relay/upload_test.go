package relay_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"reprise/internal/relay"
)

// TestBackendAnswersFirst while the body of the request is still on its way: from the relay, which has read it, and
// from a client, to a relay that has not.
func TestBackendAnswersFirst(t *testing.T) {
	begun := make(chan bool)
	w := start(t, relay.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(rw)
		_ = rc.EnableFullDuplex()
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: first\n\n")
		_ = rc.Flush()
		<-begun
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(rw, "data: %d %v\n\n", n, err)
	})
	defer close(begun)   // the backend ends with a test that has failed
	const size = 7 << 20 // more than sockets hold
	for _, request := range []struct {
		header       string
		before, then int // the bytes of the body that are sent before the answer begins and after it
	}{
		{"Idempotency-Key: a", size, 0},
		{"X-Other: b", size, 0},
		{"X-Other: c", 10, 20},
	} {
		body, more := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, body)
		w.ok(err)
		name, value, _ := strings.Cut(request.header, ": ")
		r.Header.Set(name, value)
		r.ContentLength = int64(request.before + request.then)
		sent := make(chan bool)
		go func() {
			_, _ = more.Write(make([]byte, request.before))
			close(sent)
		}()
		res, err := w.client.Do(r)
		w.ok(err)
		in := bufio.NewReader(res.Body)
		if line, err := in.ReadString('\n'); err != nil || line != "data: first\n" {
			t.Fatalf("%v: %q, %v", request, line, err)
		}
		begun <- true
		<-sent
		_, _ = more.Write(make([]byte, request.then))
		w.ok(more.Close())
		rest, err := io.ReadAll(in)
		want := fmt.Sprint(request.before+request.then, " <nil>")
		if data, _ := events(string(rest)); err != nil || len(data) != 1 || data[0] != want {
			t.Errorf("%v: %q, %v", request, rest, err)
		}
		_ = res.Body.Close()
	}
}
