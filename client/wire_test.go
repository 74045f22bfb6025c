package client_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"reprise/client"
)

// wire is a server that writes the bytes that it is told, over net.Pipe, so that it can
// run in a synctest bubble and cut a response after any byte. Each
// connection answers one request.
type wire struct {
	// answer returns the bytes of the response to request number i, from 0 on. If hold is
	// true the connection then stays open until the client closes it.
	answer func(i int, r *http.Request) (response []byte, hold bool)

	// write, where it is not nil, takes the place of answer and writes a response as slowly as it likes.
	write func(i int, conn net.Conn)

	mu       sync.Mutex
	requests []*http.Request
	dialed   []string // addresses
	bodies   []string
	wg       sync.WaitGroup
}

// client returns a Client of w, for a test that closes it at its end.
func (w *wire) client(t testing.TB, opts client.Options) *client.Client {
	t.Helper()
	transport := &http.Transport{DialContext: w.dial, DisableKeepAlives: true}
	opts.URL, opts.HTTPClient = "http://reprise.test/base/", &http.Client{Transport: transport}
	if opts.Token == "" {
		opts.Token = "secret"
	}
	c, err := client.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.wg.Wait()
	})
	return c
}

func (w *wire) dial(_ context.Context, _, address string) (net.Conn, error) {
	here, there := net.Pipe()
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	w.mu.Unlock()
	w.wg.Go(func() { w.serve(there) })
	return here, nil
}

func (w *wire) serve(conn net.Conn) {
	defer conn.Close()
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	i := len(w.requests)
	w.requests = append(w.requests, r)
	w.bodies = append(w.bodies, string(body))
	w.mu.Unlock()
	if w.write != nil {
		w.write(i, conn)
		return
	}
	response, hold := w.answer(i, r)
	if _, err := conn.Write(response); err == nil && hold {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// request is the request number i.
func (w *wire) request(t testing.TB, i int) *http.Request {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if i >= len(w.requests) {
		t.Fatalf("there were %d requests", len(w.requests))
	}
	return w.requests[i]
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests)
}

// plain is a response that ends with its connection: a lost connection looks like the end of it.
func plain(status int, header, body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nConnection: close\r\n%s\r\n%s",
		status, http.StatusText(status), header, body)
}

// chunked is a response whose end is marked.
func chunked(status int, header string, chunks ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nTransfer-Encoding: chunked\r\n%s\r\n", status, http.StatusText(status), header)
	for _, chunk := range chunks {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(chunk), chunk)
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

const sseHeader = "Content-Type: text/event-stream\r\n"

// events is a response of frames.
func events(frames ...string) []byte {
	return plain(200, sseHeader, strings.Join(frames, ""))
}

func jsonAnswer(status int, body string) []byte {
	return plain(status, "Content-Type: application/json\r\n", body)
}

func problemAnswer(status int, header, code string, retryable bool) []byte {
	body := fmt.Sprintf(`{"type":"t","title":"t","status":%d,"code":%q,"retryable":%t}`, status, code, retryable)
	return plain(status, "Content-Type: application/problem+json\r\n"+header, body)
}

// cursorAt is a cursor as the server makes it. epoch is one letter.
func cursorAt(seq int, epoch string) string {
	return fmt.Sprintf("%d.%s.0123456789ABC", seq, strings.Repeat(epoch, 16))
}

// text is the frame of an event with text.
func text(seq int, kind, data string) string {
	return frame(seq, "A", kind, fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T09:30:00.000Z","text":%q}`, seq, data))
}

func end(seq int) string {
	return frame(seq, "A", "end", fmt.Sprintf(
		`{"seq":%d,"time":"2026-11-20T09:30:01.000Z","outcome":"exited","exit_code":3,"signal":null,"duration_ms":12,`+
			`"usage":{"user_ms":5,"system_ms":2,"max_rss_bytes":4096},"bytes":{"stdout":10,"stderr":0}}`, seq))
}

func frame(seq int, epoch, kind, data string) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", cursorAt(seq, epoch), kind, data)
}

// collect reads a loop to its end; its error is the last thing.
func collect(seq func(func(client.Event, error) bool)) (got []client.Event, err error) {
	for event, err := range seq {
		if err != nil {
			return got, err
		}
		got = append(got, event)
	}
	return got, nil
}

// seqs shows events in short: their seq and type.
func seqs(list []client.Event) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%d %s,", e.Seq, e.Type)
	}
	return strings.TrimSuffix(b.String(), ",")
}
