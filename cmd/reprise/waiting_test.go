package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reprise/client"
	"reprise/internal/park"
)

// TestWaitingReaders: readers that are parked and readers that are not behave alike.
func TestWaitingReaders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags []string
		run   func(*waiting)
	}{
		"come back when another server takes over": {run: waitersAreTakenOver},
		"come back when the server stops":          {run: waitersComeBack},
		"end with their key":                       {run: waitersEndWithTheirKey},
		"leave their place to others": {
			flags: []string{"--limit-principal", "readers=3"}, run: waitersLeaveTheirPlace,
		},
		"get heartbeats":               {flags: []string{"--heartbeat", "1500ms"}, run: waitersGetHeartbeats},
		"are given up when they stall": {run: stalledWaitersAreGivenUp},
		"end with their connections":   {flags: []string{"--max-connection-age", "20s"}, run: waitersAge},
		"use their connections again":  {run: waitersAskAgain},
		"ask on while they wait":       {run: waitersAskOn},
		"get compressed events":        {run: waitersGetCompressedEvents},
	} {
		for _, parked := range []bool{false, true} {
			if parked && !park.Supported {
				continue
			}
			t.Run(fmt.Sprintf("%s/park=%v", name, parked), func(t *testing.T) {
				t.Parallel()
				test.run(startWaiting(t, parked, test.flags))
			})
		}
	}
}

// waiting is a server with the stream "s".
type waiting struct {
	*outliving
	*testing.T
	parks  bool
	token  string
	before int // readers of the server itself
}

// startWaiting starts the server. It parks readers by default.
func startWaiting(t *testing.T, parks bool, flags []string) *waiting {
	t.Helper()
	w := &waiting{outliving: &outliving{t: t, flags: flags}, T: t, parks: parks}
	if !parks {
		w.flags = append([]string{"--no-park"}, flags...)
	}
	w.open()
	token, err := os.ReadFile(filepath.Join(w.dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	w.token = strings.TrimSpace(string(token))
	if _, err := w.client.CreateStream(t.Context(), "s", client.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	w.before = w.metric("reprise_readers")
	return w
}

func (w *waiting) call(method, path, body string) []byte {
	w.Helper()
	return fetch(w.T, method, "http://"+w.listen+path, w.token, body, nil)
}

func (w *waiting) publish(data string) {
	w.Helper()
	w.call(http.MethodPost, "/v1/streams/s/events", fmt.Sprintf(`{"type":"x","data":%q}`, data))
}

// metric returns the value of a metric without labels.
func (w *waiting) metric(name string) int {
	w.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindSubmatch(w.call(http.MethodGet, "/metrics", ""))
	if m == nil {
		w.Fatalf("/metrics lacks %s", name)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// settle waits until there are n readers, all parked if the server parks readers.
func (w *waiting) settle(n int) {
	w.Helper()
	parked := 0
	if w.parks {
		parked = n
	}
	if !eventually(func() bool {
		return w.metric("reprise_readers")-w.before == n && w.metric("reprise_readers_parked") == parked
	}) {
		w.Fatalf("%d readers, of which %d are parked; want %d and %d",
			w.metric("reprise_readers")-w.before, w.metric("reprise_readers_parked"), n, parked)
	}
}

// waiter is a reader over a connection of its own.
type waiter struct {
	*waiting
	conn net.Conn
	wire *bufio.Reader // of the connection
	res  *http.Response
	in   *bufio.Reader // of the response
}

// ask begins to read the stream from its tail. The header has further lines.
func (w *waiting) ask(token string, header ...string) *waiter {
	w.Helper()
	conn, err := net.Dial("tcp", w.listen)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		w.Fatal(err)
	}
	r := &waiter{waiting: w, conn: conn, wire: bufio.NewReader(conn)}
	r.again(token, header...)
	return r
}

// again sends the request on the connection of r.
func (r *waiter) again(token string, header ...string) {
	r.Helper()
	_, err := fmt.Fprintf(r.conn, "GET /v1/streams/s/events?after=tail HTTP/1.1\r\nHost: localhost\r\n"+
		"Accept: text/event-stream\r\nAuthorization: Bearer %s\r\n%s\r\n", token, strings.Join(header, ""))
	if err == nil {
		r.res, err = http.ReadResponse(r.wire, nil)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.in = bufio.NewReader(r.res.Body)
}

// openAll asks n times, and waits until all are readers.
func (w *waiting) openAll(n int) (all []*waiter) {
	w.Helper()
	for range n {
		all = append(all, w.ask(w.token))
	}
	w.settle(n)
	return all
}

// sees reads until a line has a prefix.
func (r *waiter) sees(prefix string) {
	r.Helper()
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			r.Fatalf("no line begins with %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
}

// endsWith reads the rest of the response, which must be whole.
func (r *waiter) endsWith(want string) {
	r.Helper()
	rest, err := io.ReadAll(r.in)
	if err != nil || !strings.HasSuffix(string(rest), want) {
		r.Errorf("the response ends with %q, %v; want %q", rest, err, want)
	}
}

// waitersAreTakenOver: clients that wait while a server takes over from another one miss nothing and see nothing twice.
func waitersAreTakenOver(w *waiting) {
	const readers, takeOvers = 10, 2
	results := make(chan error, readers)
	for range readers {
		go func() {
			next := uint64(1)
			for e, err := range w.client.FollowStream(w.Context(), "s", &client.FollowOptions{OnGap: client.GapFail}) {
				if err == nil && e.Seq != next {
					err = fmt.Errorf("event %d comes in place of %d", e.Seq, next)
				}
				if err != nil {
					results <- err
					return
				}
				next++
			}
			if want := uint64(1 + takeOvers + 1 + 1); next != want {
				results <- fmt.Errorf("ended before event %d, want %d", next, want)
				return
			}
			results <- nil
		}()
	}
	w.settle(readers)
	mode := w.flags
	for i := range takeOvers {
		w.publish(fmt.Sprint("before ", i))
		w.settle(readers)
		w.takeOver(mode...)
		w.settle(readers)
	}
	w.publish("last")
	w.call(http.MethodPost, "/v1/streams/s/end", `{"outcome":"completed"}`)
	for range readers {
		if err := <-results; err != nil {
			w.Error(err)
		}
	}
}

func waitersComeBack(w *waiting) {
	all := w.openAll(3)
	if err := w.daemon.signal(unix.SIGTERM); err != nil || w.daemon.err != nil {
		w.Errorf("the server ended with %v, %v", err, w.daemon.err)
	}
	for _, r := range all {
		r.endsWith("retry: 250\n")
		if _, err := r.wire.ReadByte(); err != io.EOF {
			w.Errorf("after the response: %v", err)
		}
	}
}

func waitersEndWithTheirKey(w *waiting) {
	var key struct{ ID, Key string }
	body := w.call(http.MethodPost, "/v1/keys", `{"name":"reader","scopes":["read"]}`)
	if err := json.Unmarshal(body, &key); err != nil {
		w.Fatal(err)
	}
	mine, others := w.ask(key.Key), w.ask(w.token)
	w.settle(2)
	w.call(http.MethodDelete, "/v1/keys/"+key.ID, "")
	mine.endsWith("")
	w.settle(1)
	mine.again(key.Key)
	if mine.res.StatusCode != http.StatusUnauthorized {
		w.Errorf("status %d with the key that was revoked", mine.res.StatusCode)
	}
	w.publish("more")
	others.sees("id: ")
}

func waitersLeaveTheirPlace(w *waiting) {
	var key struct{ Key string }
	body := w.call(http.MethodPost, "/v1/keys", `{"name":"reader","scopes":["read"]}`)
	if err := json.Unmarshal(body, &key); err != nil {
		w.Fatal(err)
	}
	var all []*waiter
	for range 3 {
		all = append(all, w.ask(key.Key))
	}
	w.settle(3)
	refused := w.ask(key.Key)
	if refused.res.StatusCode != http.StatusTooManyRequests {
		w.Fatalf("status %d for one reader too many", refused.res.StatusCode)
	}
	refused.endsWith("}\n")
	// One disconnects, one only ends its side of the connection, and one is reset.
	if err := all[0].conn.Close(); err != nil {
		w.Fatal(err)
	}
	if err := all[1].conn.(*net.TCPConn).CloseWrite(); err != nil {
		w.Fatal(err)
	}
	w.settle(1)
	refused.again(key.Key)
	if refused.res.StatusCode != http.StatusOK {
		w.Errorf("status %d in a place that was left", refused.res.StatusCode)
	}
	w.settle(2)
	if err := all[2].conn.(*net.TCPConn).SetLinger(0); err != nil {
		w.Fatal(err)
	}
	all[2].conn.Close()
	w.settle(1)
	w.publish("more")
	refused.sees("id: ")
}

func waitersGetHeartbeats(w *waiting) {
	all := w.openAll(2)
	for range 3 {
		for _, r := range all {
			r.sees(":")
		}
	}
	w.settle(2)
	w.publish("more")
	for _, r := range all {
		r.sees("id: ")
	}
}

// stalledWaitersAreGivenUp takes as long as the server waits for a client that accepts nothing.
func stalledWaitersAreGivenUp(w *waiting) {
	all := w.openAll(3) // the first two read nothing
	reads := all[2]
	const events = 80
	var reading sync.WaitGroup
	reading.Go(func() {
		for range events {
			reads.sees("id: ")
		}
	})
	for range events {
		w.publish(strings.Repeat("x", 200_000))
	}
	reading.Wait()
	w.settle(1)
	w.publish("more")
	reads.sees("id: ")
}

func waitersAge(w *waiting) {
	r := w.openAll(1)[0]
	r.endsWith("retry: 250\n")
	if _, err := r.wire.ReadByte(); err != io.EOF || !r.res.Close {
		w.Errorf("the connection goes on: %v; announced: %v", err, r.res.Close)
	}
	w.settle(0)
}

// waitersAskAgain: connections are used again after the end of a response.
func waitersAskAgain(w *waiting) {
	r := w.openAll(1)[0]
	w.publish("more")
	r.sees("id: ")
	w.settle(1)
	w.call(http.MethodDelete, "/v1/streams/s", "")
	r.endsWith("retry: 250\nevent: removed\ndata: {\"code\":\"not_found\",\"detail\":\"the stream was removed\"}\n\n")
	w.call(http.MethodPut, "/v1/streams/s", `{}`)
	r.again(w.token)
	w.settle(1)
	w.publish("more")
	r.sees("id: ")
}

// waitersAskOn: a request that comes while a reader waits is answered after its response, even if the client has ended
// its side of the connection behind that request.
func waitersAskOn(w *waiting) {
	r := w.openAll(1)[0]
	if _, err := io.WriteString(r.conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		w.Fatal(err)
	}
	if err := r.conn.(*net.TCPConn).CloseWrite(); err != nil {
		w.Fatal(err)
	}
	w.publish("more")
	r.sees("id: ")
	w.settle(1)
	w.call(http.MethodPost, "/v1/streams/s/end", `{"outcome":"completed"}`)
	r.sees("event: end")
	r.endsWith("\n\n")
	res, err := http.ReadResponse(r.wire, nil)
	if err != nil || res.StatusCode != http.StatusOK {
		w.Fatalf("the next request: %v, %v", res, err)
	}
	res.Body.Close()
}

func waitersGetCompressedEvents(w *waiting) {
	r := w.ask(w.token, "Accept-Encoding: gzip\r\n")
	w.settle(1)
	for i := range 2 {
		w.publish("more")
		if i == 0 {
			plain, err := gzip.NewReader(r.in)
			if err != nil {
				w.Fatal(err)
			}
			r.in = bufio.NewReader(plain)
		}
		r.sees("id: ")
		w.settle(1)
	}
	w.call(http.MethodPost, "/v1/streams/s/end", `{"outcome":"completed"}`)
	r.sees("event: end")
	r.endsWith("\n\n")
}
