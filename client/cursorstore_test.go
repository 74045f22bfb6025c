package client_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
)

func TestFileCursor(t *testing.T) {
	dir := t.TempDir()
	f := client.FileCursor(filepath.Join(dir, "cursor"))
	if got, err := f.Load(t.Context()); got != "" || err != nil {
		t.Errorf("no file: %q, %v", got, err)
	}
	for _, cursor := range []string{cursorAt(10, "A"), cursorAt(9, "A")} {
		if err := f.Save(t.Context(), cursor); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Load(t.Context()); got != cursor || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	info, err := os.Stat(string(f))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A file that holds no cursor must not make a reader begin anew.
func TestFileCursorDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor")
	for _, text := range []string{"", "\n", "1.A", "two\nlines\n", "é\n", strings.Repeat("1", 5000) + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := client.FileCursor(path).Load(t.Context()); !errors.Is(err, reprise.ErrCursorMalformed) {
			t.Errorf("%.20q: %q, %v", text, got, err)
		}
	}
	if err := client.FileCursor(filepath.Join(path, "x")).Save(t.Context(), "1"); err == nil {
		t.Error("saved below a file")
	}
}

// recordingCursor notes each save.
type recordingCursor struct {
	client.MemoryCursor
	saves []string
	fail  error
}

func (s *recordingCursor) Save(ctx context.Context, cursor string) error {
	seq, _, _ := strings.Cut(cursor, ".")
	s.saves = append(s.saves, seq)
	if err := errors.Join(s.fail, ctx.Err()); err != nil {
		return err
	}
	return s.MemoryCursor.Save(ctx, cursor)
}

func TestSaveEvery(t *testing.T) {
	for name, tt := range map[string]struct {
		every time.Duration
		want  []string
	}{
		"each":              {-1, []string{"1", "2", "3", "4", "5"}},
		"one for each wait": {time.Hour, []string{"1", "3", "5"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := script(events(text(1, "a", ""), text(2, "a", ""), text(3, "a", "")), events(text(4, "a", ""), end(5)))
			store := new(recordingCursor)
			_, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x",
				&client.FollowOptions{Cursors: store, SaveEvery: tt.every}))
			if diff := cmp.Diff(tt.want, store.saves); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", name, err, diff)
			}
		})
	}
}

// A loop whose cursor cannot be saved ends, and does not go on to do what would be done again.
func TestSaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordingCursor{fail: errors.New("disk full")}
		w := script(events(text(1, "a", ""), end(2)))
		got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x",
			&client.FollowOptions{Cursors: store}))
		if !errors.Is(err, store.fail) || seqs(got) != "1 a" || client.Retryable(err) {
			t.Errorf("%s, %v", seqs(got), err)
		}
	})
}

// What was handled is saved though the context is cancelled, and what was not is not.
func TestSaveWhenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(int, *http.Request) ([]byte, bool) {
			return events(text(1, "a", ""), text(2, "a", ""), text(3, "a", "")), true
		}}
		store := new(recordingCursor)
		ctx, cancel := context.WithCancel(t.Context())
		opts := &client.FollowOptions{Cursors: store, SaveEvery: time.Hour}
		for event, err := range w.client(t, client.Options{}).Follow(ctx, "x", opts) {
			if err != nil {
				break
			}
			if event.Seq == 3 {
				cancel()
				break
			}
		}
		cancel()
		if saved, _ := store.Load(t.Context()); saved != cursorAt(2, "A") {
			t.Errorf("saved %q", saved)
		}
	})
}

// While the server is away, what was handled is already safe.
func TestSaveBeforeALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script(events(text(1, "a", ""), text(2, "a", ""), "data: garbage\n\n"), plain(503, "", ""))
		store := new(recordingCursor)
		opts := &client.FollowOptions{Cursors: store, SaveEvery: time.Hour, GiveUp: time.Hour}
		opts.OnDrop = func(d client.Drop) {
			if saved, _ := store.Load(t.Context()); d.Tries > 1 && saved != cursorAt(2, "A") {
				t.Errorf("saved %q before try %d", saved, d.Tries)
			}
		}
		if _, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", opts)); !client.Retryable(err) {
			t.Error(err)
		}
	})
}
