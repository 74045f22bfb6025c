package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise/client"
)

// By default a cursor is saved every 100 ms at most, however many events and reads there are, and
// at the end.
func TestCursorIsSavedEvery100Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{write: func(_ int, conn net.Conn) {
			_, _ = conn.Write(events())
			for seq := 1; seq <= 10; seq++ {
				_, _ = io.WriteString(conn, text(seq, "a", "")) // one read each
				time.Sleep(35 * time.Millisecond)
			}
			_, _ = io.WriteString(conn, end(11))
		}}
		store := new(recordingCursor)
		_, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", &client.FollowOptions{Cursors: store}))
		want := []string{"1", "3", "6", "9", "11"}
		if diff := cmp.Diff(want, store.saves); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

// What was handled is saved within 100 ms while the loop waits for more.
func TestCursorIsSavedWhileTheStreamIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(int, *http.Request) ([]byte, bool) {
			return events(text(1, "a", ""), text(2, "a", "")), true
		}}
		ctx, cancel := context.WithCancel(t.Context())
		store := new(client.MemoryCursor)
		time.AfterFunc(99*time.Millisecond, func() {
			if saved, _ := store.Load(ctx); saved != cursorAt(1, "A") {
				t.Errorf("saved %q before 100 ms", saved)
			}
		})
		time.AfterFunc(101*time.Millisecond, func() {
			if saved, _ := store.Load(ctx); saved != cursorAt(2, "A") {
				t.Errorf("saved %q after 100 ms", saved)
			}
			cancel()
		})
		opts := &client.FollowOptions{Cursors: store}
		if _, err := collect(w.client(t, client.Options{}).Follow(ctx, "x", opts)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A save that fails while the loop waits ends the loop, not the next event.
func TestSaveFailsWhileTheStreamIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		store := &failingCursor{}
		w := &wire{answer: func(int, *http.Request) ([]byte, bool) {
			return events(text(1, "a", ""), text(2, "a", "")), true
		}}
		got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x",
			&client.FollowOptions{Cursors: store}))
		if !errors.Is(err, errDiskFull) || seqs(got) != "1 a,2 a" || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("%s, %v after %v", seqs(got), err, time.Since(begun))
		}
	})
}

var errDiskFull = errors.New("disk full")

// failingCursor takes the first cursor and no other.
type failingCursor struct{ client.MemoryCursor }

func (s *failingCursor) Save(ctx context.Context, cursor string) error {
	if !strings.HasPrefix(cursor, "1.") {
		return errDiskFull
	}
	return s.MemoryCursor.Save(ctx, cursor)
}

// BenchmarkFollowSaving follows 100,000 events and saves cursors in a file.
func BenchmarkFollowSaving(b *testing.B) {
	const n = 100_000
	var body strings.Builder
	for seq := 1; seq < n; seq++ {
		body.WriteString(text(seq, "stdout", "a line of output\n"))
	}
	body.WriteString(end(n))
	response := events(body.String())
	for _, every := range []time.Duration{time.Hour, 0, -1} {
		name := map[time.Duration]string{time.Hour: "end", 0: "100ms", -1: "event"}[every]
		b.Run(fmt.Sprintf("save=%s/events=%d", name, n), func(b *testing.B) {
			c := script(response).client(b, client.Options{})
			for i := 0; b.Loop(); i++ {
				file := client.FileCursor(filepath.Join(b.TempDir(), fmt.Sprint(i)))
				opts := &client.FollowOptions{Cursors: file, SaveEvery: every}
				if _, err := collect(c.Follow(b.Context(), "x", opts)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
