package client_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise/client"
)

// A proxy that holds back answers until they are complete: after two of them the loop asks for answers that end soon.
// A heartbeat that comes long before the end of its answer shows that nothing is held back any more.
func TestFollowPollsBehindAProxyThatHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		var waits []string
		w.write = func(i int, conn net.Conn) {
			waits = append(waits, w.request(t, i).URL.Query().Get("wait"))
			_, _ = conn.Write(events())
			switch i {
			case 0, 1: // a header and nothing more
				_, _ = io.Copy(io.Discard, conn)
			case 2:
				_, _ = io.WriteString(conn, text(1, "stdout", "a"))
			case 3: // nothing has happened: the whole answer comes at its end
				time.Sleep(15 * time.Second)
				_, _ = io.WriteString(conn, "retry: 1000\n:\nretry: 250\n")
			case 4: // and now it comes as it is sent
				time.Sleep(7 * time.Second)
				_, _ = io.WriteString(conn, ":\n")
				time.Sleep(8 * time.Second)
			case 5:
				_, _ = io.WriteString(conn, text(2, "stdout", "b"))
				_, _ = io.Copy(io.Discard, conn)
			default:
				_, _ = io.WriteString(conn, end(3))
			}
		}
		var drops, connected int
		opts := &client.FollowOptions{
			OnDrop: func(client.Drop) { drops++ }, OnConnected: func() { connected++ },
		}
		got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", opts))
		if err != nil || seqs(got) != "1 stdout,2 stdout,3 end" {
			t.Fatalf("%s, %v", seqs(got), err)
		}
		if got, want := strings.Join(waits, ","), ",,15s,15s,15s,,"; got != want {
			t.Errorf("the waits %q, want %q", got, want)
		}
		if drops != 3 || connected != 3 {
			t.Errorf("%d drops and %d connections; the polls are one connection", drops, connected)
		}
	})
}

// A start whose answer is held back has happened: its events are polled.
func TestRunPollsBehindAProxyThatHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		w.write = func(i int, conn net.Conn) {
			_, _ = conn.Write(events())
			if r := w.request(t, i); r.Method == http.MethodGet && r.URL.Query().Has("wait") {
				_, _ = io.WriteString(conn, end(1))
				return
			}
			_, _ = io.Copy(io.Discard, conn)
		}
		run := w.client(t, client.Options{}).Run(t.Context(), client.StartRequest{ID: "x", Argv: []string{"true"}}, nil)
		got, err := collect(run)
		if err != nil || seqs(got) != "1 end" || w.count() != 3 {
			t.Errorf("%s, %v, after %d requests", seqs(got), err, w.count())
		}
	})
}

// A server that is older than the parameter wait refuses it. The loop then follows as before, and does not poll again.
func TestPollAtAnOlderServerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		var waits []string
		w.write = func(i int, conn net.Conn) {
			waits = append(waits, w.request(t, i).URL.Query().Get("wait"))
			switch i {
			case 0, 1, 3, 4:
				_, _ = conn.Write(events())
				_, _ = io.Copy(io.Discard, conn)
			case 2:
				_, _ = conn.Write(problemAnswer(400, "", "invalid", false))
			default:
				_, _ = conn.Write(events(end(1)))
			}
		}
		got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", nil))
		if err != nil || seqs(got) != "1 end" {
			t.Fatalf("%s, %v", seqs(got), err)
		}
		if got, want := strings.Join(waits, ","), ",,15s,,,"; got != want {
			t.Errorf("the waits %q, want %q", got, want)
		}
	})
}
