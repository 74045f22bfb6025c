package mcphttp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/mcp/mcphttp"
)

// A body that never comes holds no connection: a request that is refused for its head is answered at once, one whose
// body is needed after a pause.
func TestMissingBodyHoldsNoConnection(t *testing.T) {
	const media = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	for name, tt := range map[string]struct {
		head   string
		status int
		within time.Duration
	}{
		"no credentials": {"POST /mcp HTTP/1.1\r\nContent-Length: 100\r\n" + media, 500, 0},
		"wrong type":     {"POST /mcp HTTP/1.1\r\nContent-Length: 100\r\nX-User: me\r\n", 415, 0},
		"wrong method":   {"PUT /mcp HTTP/1.1\r\nContent-Length: 100\r\nX-User: me\r\n", 405, 0},
		"no session":     {"GET /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-User: me\r\n", 406, 0},
		"needed": {
			"POST /mcp HTTP/1.1\r\nContent-Length: 100\r\nX-User: me\r\n" + media, 400, 20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, setup{opts: mcphttp.Options{
					BodyTimeout: 20 * time.Second,
					Identify: func(r *http.Request) (reprise.Tenant, string, error) {
						if r.Header.Get("X-User") == "" {
							return "", "", errors.New("who?")
						}
						return reprise.DefaultTenant, "me", nil
					},
				}})
				conn, err := w.pipes.dial(t.Context(), "", "")
				check(t, err)
				defer conn.Close()
				begin := time.Now()
				check(t, conn.SetDeadline(begin.Add(time.Hour)))
				fmt.Fprintf(conn, "%sHost: localhost\r\n\r\n", tt.head)
				in := bufio.NewReader(conn)
				res, err := http.ReadResponse(in, nil)
				check(t, err)
				if took := time.Since(begin); res.StatusCode != tt.status || took > tt.within {
					t.Errorf("status %d after %v, want %d within %v", res.StatusCode, took, tt.status, tt.within)
				}
				_, err = io.Copy(io.Discard, in)
				if took := time.Since(begin); err != nil || took > tt.within+time.Second {
					t.Errorf("closed after %v, %v", took, err)
				}
				w.close()
			})
		})
	}
}

// A call goes on when its connection has reached its age: the client is told to come back, and resumes.
func TestCallOutlivesTheAgeOfItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age = 5 * time.Minute
		w := newFixture(t, setup{conns: &httpserver.Options{MaxAge: age}, opts: mcphttp.Options{ResponseAge: -1}})
		c := w.begin("2025-11-25")
		begin := time.Now()
		late := time.AfterFunc(2*age, func() { w.tools.release("g") }) // so that a response which is not ended ends
		res := c.post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"steps","arguments":{"gate":"g"}}}`)
		text := c.text(res)
		if took := time.Since(begin); took > age || took < age*9/10 || strings.Count(text, "retry: 1000\n") != 2 {
			t.Errorf("ended after %v with %q", took, text)
		}
		_, id, _ := strings.Cut(text, "id: ")
		id, _, _ = strings.Cut(id, "\n")
		req := c.request(http.MethodGet, "")
		req.Header.Set("Last-Event-ID", id)
		if late.Stop() {
			w.tools.release("g")
		}
		res, err := w.http.Do(req)
		check(t, err)
		if text := c.text(res); !strings.Contains(text, "done") {
			t.Errorf("resumed: %d %q", res.StatusCode, text)
		}
		w.close()
	})
}

// A call that takes long is answered by responses of a bounded age, each of which ends in good order with the id to
// come back with: clients that give up after two broken connections do not count these. Versions before 2025-11-25 do
// not know how to come back, and keep one response. So does by default a client that has never come back.
func TestResponsesHaveAge(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		age           time.Duration
		returning     bool
		want          int
	}{
		{"stated", "2025-11-25", 45 * time.Second, false, 3},
		{"default", "2025-11-25", 0, false, 1},
		{"default, returning", "2025-11-25", 0, true, 3},
		{"stated, version", "2025-06-18", 45 * time.Second, true, 1},
		{"none", "2025-11-25", -1, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const age = 45 * time.Second
				w := newFixture(t, setup{opts: mcphttp.Options{ResponseAge: tt.age}})
				c := w.begin(tt.version)
				back := func(text string) string {
					req := c.request(http.MethodGet, "")
					at := strings.LastIndex(text, "id: ")
					id, _, _ := strings.Cut(text[at+4:], "\n")
					req.Header.Set("Last-Event-ID", id)
					res, err := w.http.Do(req)
					check(t, err)
					return c.text(res)
				}
				call := func(gate string) string {
					return c.text(c.post(`{"jsonrpc":"2.0","id":7,"method":"tools/call",` +
						`"params":{"name":"steps","arguments":{"gate":"` + gate + `"}}}`))
				}
				if tt.returning {
					time.AfterFunc(time.Second, func() { w.tools.release("earlier") })
					back(call("earlier"))
				}
				begin, responses := time.Now(), 0
				time.AfterFunc(2*age+time.Second, func() { w.tools.release("g") })
				text := call("g")
				for responses = 1; !strings.Contains(text, "done") && responses < 10; responses++ {
					if took, due := time.Since(begin), time.Duration(responses)*age; took.Truncate(time.Second) != due {
						t.Errorf("response %d ended after %v, want %v", responses, took, due)
					}
					if strings.Count(text, "retry: ") != 2 {
						t.Errorf("response %d ends with %q", responses, text)
					}
					text = back(text)
				}
				if responses != tt.want || !strings.Contains(text, "done") {
					t.Errorf("%d responses, the last %q; want %d", responses, text, tt.want)
				}
				w.close()
			})
		})
	}
}
