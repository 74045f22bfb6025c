package client_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise/client"
)

// DESIGN 9.4: the first try after a connection that has brought something costs no wait, whatever
// the server asks for; the second one does.
func TestFollowReconnectsAtOnceAfterAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var drops []client.Drop
		opts := &client.FollowOptions{OnDrop: func(d client.Drop) { drops = append(drops, d) }}
		w := script(events("retry: 3000\n"+text(1, "stdout", "a")), nil, events(text(2, "stdout", "b")), events(end(3)))
		got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", opts))
		if err != nil || seqs(got) != "1 stdout,2 stdout,3 end" || len(drops) != 3 {
			t.Fatalf("%s, %v, %+v", seqs(got), err, drops)
		}
		if drops[0].Wait != 0 || drops[1].Wait < 3*time.Second || drops[2].Wait != 0 {
			t.Errorf("waited %v, %v, %v", drops[0].Wait, drops[1].Wait, drops[2].Wait)
		}
		if d := drops[1]; d.Seq != 1 || !d.Met || d.Tries != 2 || d.Since != drops[0].Since {
			t.Errorf("was told %+v", d)
		}
	})
}

// A proxy that cuts quiet connections is answered at once, for a heartbeat came; a comment
// with which each connection begins and ends is no such thing.
func TestFollowReconnectsAtOnceAfterAHeartbeat(t *testing.T) {
	for name, tt := range map[string]struct {
		silence   time.Duration
		immediate bool
	}{"heartbeat": {15 * time.Second, true}, "comment at the beginning": {0, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{write: func(i int, conn net.Conn) {
					if i == 5 {
						_, _ = conn.Write(events(end(1)))
						return
					}
					_, _ = conn.Write(events())
					time.Sleep(tt.silence)
					_, _ = io.WriteString(conn, ":\n")
				}}
				opts := &client.FollowOptions{OnDrop: func(d client.Drop) {
					if (d.Wait == 0) != tt.immediate {
						t.Errorf("waits %v", d.Wait)
					}
				}}
				c := w.client(t, client.Options{MinWait: time.Hour, MaxWait: 2 * time.Hour})
				if _, err := collect(c.Follow(t.Context(), "x", opts)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// DESIGN 9.6: a heartbeat is a comment line without an empty line behind it, and keeps a connection as soon as it
// has come; three of them missing end it. The program is told at the first one, not at the head.
func TestFollowCountsHeartbeatsByLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beats = 40
		begun := time.Now()
		w := &wire{write: func(i int, conn net.Conn) {
			if i == 1 {
				_, _ = conn.Write(events(end(1)))
				return
			}
			_, _ = conn.Write(events(": hello\nretry: 1000\n"))
			for range beats {
				time.Sleep(15 * time.Second)
				_, _ = io.WriteString(conn, ":\n")
			}
			_, _ = io.Copy(io.Discard, conn)
		}}
		var dropped, connected time.Duration
		opts := &client.FollowOptions{
			OnDrop: func(client.Drop) { dropped = time.Since(begun) },
			OnConnected: func() {
				if connected == 0 {
					connected = time.Since(begun)
				}
			},
		}
		if _, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", opts)); err != nil {
			t.Fatal(err)
		}
		if want := beats*15*time.Second + 45*time.Second; dropped != want {
			t.Errorf("the connection was given up after %v, want %v", dropped, want)
		}
	})
}

// An answer is no connection yet: a proxy may hold everything back behind its head.
func TestOnConnectedWaitsForAnEventOrAHeartbeat(t *testing.T) {
	for name, first := range map[string]string{
		"heartbeat": ":\n", "event": text(2, "stdout", "b"), "bare id": "id: " + cursorAt(2, "A") + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				w := &wire{write: func(i int, conn net.Conn) {
					if i == 0 {
						_, _ = conn.Write(events(text(1, "stdout", "a")))
						return
					}
					_, _ = conn.Write(events("retry: 1000\n"))
					time.Sleep(10 * time.Second)
					_, _ = io.WriteString(conn, first)
					time.Sleep(10 * time.Second)
					_, _ = io.WriteString(conn, "\n"+end(3))
				}}
				var told []time.Duration
				opts := &client.FollowOptions{
					Types: []string{"stdout"}, OnConnected: func() { told = append(told, time.Since(begun)) },
				}
				if _, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", opts)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]time.Duration{0, 10 * time.Second}, told); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// DESIGN 9.10: no redirect is followed, and the token goes to nobody else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(_ int, r *http.Request) ([]byte, bool) {
				if r.Host != "reprise.test" {
					return problemAnswer(404, "", "not_found", false), false
				}
				return plain(status, "Location: http://elsewhere.test/v1/executions/x\r\n", ""), false
			}}
			c := w.client(t, client.Options{})
			_, followErr := collect(c.Follow(t.Context(), "x", nil))
			_, showErr := c.Show(t.Context(), "x")
			output := c.Output(t.Context(), "x", "stdout", nil)
			_, outputErr := io.ReadAll(output)
			output.Close()
			if followErr == nil || showErr == nil || outputErr == nil {
				t.Errorf("%d: %v, %v, %v", status, followErr, showErr, outputErr)
			}
			for i, address := range w.dialed {
				if address != "reprise.test:80" || w.request(t, i).Host != "reprise.test" {
					t.Errorf("%d: asked %s", status, address)
				}
			}
		})
	}
}

// A gap before the first event has the form of the server's, for programs that print Data.
func TestMissingStartIsAGap(t *testing.T) {
	trimmed := []byte(fmt.Sprintf(`{"code":"cursor_expired","earliest":%q,"missed":4}`, cursorAt(4, "A")))
	list := text(5, "stdout", "e") + end(6)
	from := func(seq int) []byte {
		return plain(200, sseHeader+"Stream-Earliest: "+cursorAt(seq, "A")+"\r\n", list)
	}
	filter := []string{"stdout"}
	for name, tt := range map[string]struct {
		opts   client.FollowOptions
		answer []byte
		want   string
	}{
		"all":                    {client.FollowOptions{}, events(list), "0 gap,5 stdout,6 end"},
		"after 0":                {client.FollowOptions{After: "0"}, events(list), "0 gap,5 stdout,6 end"},
		"filtered":               {client.FollowOptions{Types: filter}, from(4), "0 gap,5 stdout,6 end"},
		"filtered, nothing gone": {client.FollowOptions{Types: filter}, from(0), "5 stdout,6 end"},
		"earliest":               {client.FollowOptions{After: "earliest"}, from(4), "5 stdout,6 end"},
		"cursor":                 {client.FollowOptions{After: cursorAt(4, "A")}, from(4), "5 stdout,6 end"},
		"filtered, after a cursor": {
			client.FollowOptions{After: cursorAt(4, "A"), Types: filter}, from(4), "5 stdout,6 end",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := collect(script(tt.answer).client(t, client.Options{}).Follow(t.Context(), "x", &tt.opts))
				if err != nil || seqs(got) != tt.want {
					t.Fatalf("%s, %v", seqs(got), err)
				}
				gap := got[0]
				if gap.Gap != nil && (gap.Gap.Missed != 4 || !gap.IsJSON || gap.Cursor != cursorAt(4, "A")) {
					t.Errorf("%+v", gap)
				}
				if gap.Gap != nil && string(gap.Data) != string(trimmed) {
					t.Errorf("%s", gap.Data)
				}
			})
		})
	}
}

// DESIGN 9.2: after a fork seq goes on at the fork plus one, in the new epoch.
func TestFollowGoesOnAtTheFork(t *testing.T) {
	gap := func(fork, earliest int) string {
		return fmt.Sprintf(`{"code":"epoch_changed","earliest":%q,"tail":%q,"fork":%q,"missed":1,"taken_back":3}`,
			cursorAt(earliest, "B"), cursorAt(9, "B"), cursorAt(fork, "B"))
	}
	const fromFork = "0 gap,6 stdout,7 stdout,8 stdout,9 end"
	of := func(seq int) string { return frame(seq, "B", "stdout", fmt.Sprintf(`{"seq":%d,"text":"b"}`, seq)) }
	last := frame(9, "B", "end", `{"seq":9,"outcome":"exited"}`)
	for name, tt := range map[string]struct {
		answer []byte
		want   string
		saved  string
	}{
		"from the fork": {
			events(frame(5, "B", "gap", gap(5, 0)), of(6), of(7), of(8), last), fromFork, cursorAt(5, "B"),
		},
		"from a later earliest": {
			events(frame(7, "B", "gap", gap(5, 7)), of(8), last), "0 gap,8 stdout,9 end", cursorAt(7, "B"),
		},
		"known ones again": {
			events(frame(3, "B", "gap", gap(5, 3)), of(4), of(5), of(6), of(7), of(8), last), fromFork,
			cursorAt(5, "B"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := script(tt.answer).client(t, client.Options{})
				got, err := collect(c.Follow(t.Context(), "x", &client.FollowOptions{After: cursorAt(8, "A")}))
				if err != nil || seqs(got) != tt.want {
					t.Fatalf("%s, %v", seqs(got), err)
				}
				if g := got[0].Gap; g.Fork != cursorAt(5, "B") || g.TakenBack != 3 || g.Missed != 1 ||
					got[0].Cursor != tt.saved {
					t.Errorf("%+v at %s", g, got[0].Cursor)
				}
			})
		})
	}
	t.Run("hole behind the fork", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := script(events(frame(5, "B", "gap", gap(5, 0)), of(7)))
			opts := &client.FollowOptions{After: cursorAt(8, "A")}
			_, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", opts))
			if err == nil {
				t.Errorf("%v", err)
			}
		})
	})
}
