package httpserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"reprise/internal/httpserver"
)

// pipeListener hands out connections without a network, whose time is that of the bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// pause is the bound on pauses in the tests.
const pause = 30 * time.Second

// inBubble serves handler with guarded bodies on one connection, of which test gets the other side.
func inBubble(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, conn net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		server := httpserver.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w, r, done := httpserver.GuardBody(w, r, pause)
			defer done()
			handler(w, r)
		}), nil)
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		go server.Serve(l)
		client, conn := net.Pipe()
		l.conns <- conn
		test(t, client)
		client.Close()
		server.Close()
	})
}

func refuse(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }

func ignore(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func readAll(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, n)
}

// A body that never comes holds the connection no longer than a pause, whatever the handler does with it.
func TestAbsentBody(t *testing.T) {
	for _, tt := range []struct {
		name             string
		handler          http.HandlerFunc
		status           int
		answered, closed time.Duration // at the latest
	}{
		{"refused", refuse, 401, 0, time.Second},
		{"ignored", ignore, 204, time.Second, 2 * time.Second},
		{"not answered", func(http.ResponseWriter, *http.Request) {}, 200, time.Second, 2 * time.Second},
		{"read", readAll, 400, pause, pause + time.Second},
	} {
		for _, announced := range []string{
			"Content-Length: 100", "Content-Length: 100000000",
			"Transfer-Encoding: chunked",
		} {
			t.Run(tt.name+"/"+announced, func(t *testing.T) {
				inBubble(t, tt.handler, func(t *testing.T, conn net.Conn) {
					begin := time.Now()
					conn.SetReadDeadline(begin.Add(time.Hour))
					fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", announced)
					in := bufio.NewReader(conn)
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begin); res.StatusCode != tt.status || took > tt.answered {
						t.Errorf("status %d after %v, want %d within %v", res.StatusCode, took, tt.status, tt.answered)
					}
					_, err = io.Copy(io.Discard, in)
					if took := time.Since(begin); err != nil || took > tt.closed {
						t.Errorf("closed after %v (%v), want %v", took, err, tt.closed)
					}
				})
			})
		}
	}
}

// A body that goes on is not cut, however long it takes; one that pauses is.
func TestSlowBody(t *testing.T) {
	for gap, want := range map[time.Duration]int{pause - time.Second: 200, pause + time.Second: 400} {
		t.Run(gap.String(), func(t *testing.T) {
			inBubble(t, readAll, func(t *testing.T, conn net.Conn) {
				var writer sync.WaitGroup
				defer writer.Wait()
				defer conn.Close()
				writer.Go(func() {
					fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n")
					for range 20 {
						time.Sleep(gap) // of the bubble
						if _, err := conn.Write([]byte("x")); err != nil {
							return
						}
					}
				})
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || res.StatusCode != want {
					t.Fatalf("%v, %v, want status %d", res, err, want)
				}
			})
		})
	}
}

// BoundBody bounds the whole body, which may not go on for ever a byte at a time.
func TestBoundedBody(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		httpserver.BoundBody(r, time.Minute)
		readAll(w, r)
	}, func(t *testing.T, conn net.Conn) {
		var writer sync.WaitGroup
		defer writer.Wait()
		defer conn.Close()
		begin := time.Now()
		writer.Go(func() {
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
			for {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Second) // of the bubble
			}
		})
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 400 || time.Since(begin) > 61*time.Second {
			t.Fatalf("%v, %v after %v", res, err, time.Since(begin))
		}
	})
}

// The bound ends with the body: a response that follows a stream goes on, whether the handler has read the
// body or not.
func TestResponseOutlivesTheBoundOnItsBody(t *testing.T) {
	for _, reads := range []bool{true, false} {
		t.Run(fmt.Sprint("read=", reads), func(t *testing.T) {
			const ticks = 30
			inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				if reads {
					io.Copy(io.Discard, r.Body)
				}
				w.WriteHeader(http.StatusOK)
				for range ticks {
					select {
					case <-r.Context().Done():
						return
					case <-time.After(pause):
					}
					io.WriteString(w, "tick\n")
					http.NewResponseController(w).Flush()
				}
			}, func(t *testing.T, conn net.Conn) {
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				if n := strings.Count(string(body), "tick"); err != nil || n != ticks {
					t.Errorf("%d of %d ticks, %v", n, ticks, err)
				}
			})
		})
	}
}

// A client that sent a small body which nobody reads keeps its connection, unless it was refused.
func TestConnectionAfterUnreadBody(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		closes  bool
	}{"ignored": {ignore, false}, "refused": {refuse, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.handler, func(t *testing.T, conn net.Conn) {
				in := bufio.NewReader(conn)
				for range 2 {
					go fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
					res, err := http.ReadResponse(in, nil)
					if err != nil || res.Close != tt.closes {
						t.Fatalf("%v, %v", res, err)
					}
					if tt.closes {
						break
					}
				}
			})
		})
	}
}

// A request that ends with its credential leaves its connection as it was for the next request, which may be that of
// somebody else behind a proxy. A read deadline after the end of the body would cancel the contexts of both.
func TestConnectionAfterRequestWasEnded(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/next" {
					fmt.Fprint(w, "the context has ended: ", r.Context().Err())
					return
				}
				io.Copy(io.Discard, r.Body)
				ctx, cancel := context.WithCancelCause(r.Context())
				defer cancel(nil)
				defer httpserver.EndBody(ctx, r)()
				cancel(errors.New("revoked"))
				<-time.After(time.Second) // of the bubble
				fmt.Fprint(w, "ended")
			}, func(t *testing.T, conn net.Conn) {
				in := bufio.NewReader(conn)
				for _, tt := range [][2]string{{"/", "ended"}, {"/next", "the context has ended: <nil>"}} {
					go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", method, tt[0])
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					text, err := io.ReadAll(res.Body)
					if err != nil || string(text) != tt[1] || res.Close {
						t.Errorf("%s: %q, %v, closes %v; want %q", tt[0], text, err, res.Close, tt[1])
					}
				}
			})
		})
	}
}
