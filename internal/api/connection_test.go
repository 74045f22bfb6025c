package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/internal/httpserver"
)

// A request that is refused for its head is answered at once, and its connection is closed soon after, although
// its body never comes.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	for head, status := range map[string]int{
		"POST /none HTTP/1.1\r\nContent-Length: 100\r\n":                                         404,
		"PUT /v1/executions HTTP/1.1\r\nContent-Length: 100\r\n":                                 405,
		"POST /v1/executions HTTP/1.1\r\nContent-Length: 100\r\nOrigin: http://evil.example\r\n": 403,
		"POST /v1/executions?x=y HTTP/1.1\r\nTransfer-Encoding: chunked\r\n":                     400,
		"POST /v1/executions HTTP/1.1\r\nContent-Length: 2000000\r\n":                            413,
		"POST /v1/streams/none/events HTTP/1.1\r\nContent-Length: 100\r\n":                       404,
		"POST /v1/login HTTP/1.1\r\nContent-Length: 100\r\n":                                     415,
		"POST /v1/login HTTP/1.1\r\nContent-Length: 5000\r\nContent-Type: application/json\r\n":  413,
		"POST /v1/executions HTTP/1.1\r\nContent-Length: 100\r\n" +
			"Authorization: Bearer x\r\nAccept: application/xml\r\n": 406,
	} {
		inBubble(t, func(t *testing.T, _ *reprise.Log, l *pipeListener) {
			conn := l.dial()
			defer conn.Close()
			begin := time.Now()
			_ = conn.SetDeadline(begin.Add(time.Hour))
			fmt.Fprintf(conn, "%sHost: localhost\r\n\r\n", head)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); res.StatusCode != status || took > 0 {
				t.Errorf("%q: status %d after %v, want %d", head, res.StatusCode, took, status)
			}
			_, err = io.Copy(io.Discard, in)
			if took := time.Since(begin); err != nil || took > time.Second {
				t.Errorf("%q: closed after %v, %v", head, took, err)
			}
		})
	}
}

// A login is small and has little time: its sender is not known.
func TestLoginIsBoundedAsAWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *reprise.Log, l *pipeListener) {
		conn := l.dial()
		var writer sync.WaitGroup
		defer writer.Wait()
		defer conn.Close()
		begin := time.Now()
		writer.Go(func() {
			fmt.Fprint(conn, "POST /v1/login HTTP/1.1\r\nHost: localhost\r\n"+
				"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
			for {
				if _, err := io.WriteString(conn, "1\r\n{\r\n"); err != nil {
					return
				}
				time.Sleep(10 * time.Second) // of the bubble
			}
		})
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); res.StatusCode != 400 || took > 31*time.Second {
			t.Errorf("status %d after %v", res.StatusCode, took)
		}
	})
}

// Readers of a connection that has reached its age are told to come back soon, and the connection is closed.
func TestReaderComesBackAtTheAgeOfItsConnection(t *testing.T) {
	const age = 5 * time.Minute
	inBubbleOf(t, &httpserver.Options{MaxAge: age}, func(t *testing.T, log *reprise.Log, l *pipeListener) {
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
		s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{})
		if err != nil {
			t.Fatal(err)
		}
		conn := l.dial()
		defer conn.Close()
		begin := time.Now()
		_ = conn.SetDeadline(begin.Add(2 * age))
		fmt.Fprint(conn, "GET /v1/streams/s/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		took := time.Since(begin)
		if err != nil || !strings.HasSuffix(string(body), "retry: 250\n") || took > age || took < age*9/10 {
			t.Errorf("ended after %v with %q, %v", took, body, err)
		}
		if _, err := in.ReadByte(); !res.Close || err != io.EOF {
			t.Errorf("the connection goes on: %v", err)
		}
		if _, err := s.Append(t.Context(), reprise.Event{}); err != nil {
			t.Errorf("the stream does not go on: %v", err)
		}
	})
}
