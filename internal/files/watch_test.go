package files_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/files"
	"reprise/store/memstore"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watching is a fixture whose root is watched.
type watching struct {
	*fixture
	log     *reprise.Log
	state   string
	watches *files.Watches
}

func newWatching(t *testing.T, opts *files.WatchOptions) *watching {
	t.Helper()
	w := &watching{fixture: newFixture(t), state: filepath.Join(t.TempDir(), "watches")}
	store := memstore.New(nil)
	var err error
	w.log, err = reprise.Open(t.Context(), store, nil)
	w.ok(err)
	w.openWatches(opts)
	t.Cleanup(func() {
		w.ok(w.watches.Close())
		w.ok(w.log.Close())
		w.ok(store.Close())
	})
	return w
}

// file puts a file in its place at once, so that no look finds it half written.
func (w *watching) file(name, text string) {
	w.Helper()
	whole := filepath.Join(w.TempDir(), "whole")
	w.ok(os.WriteFile(whole, []byte(text), 0o644))
	at := filepath.Join(w.dir, name)
	w.ok(os.MkdirAll(filepath.Dir(at), 0o755))
	w.ok(os.Rename(whole, at))
}

func (w *watching) openWatches(opts *files.WatchOptions) {
	w.Helper()
	if opts == nil {
		opts = &files.WatchOptions{Interval: time.Millisecond}
	}
	var err error
	w.watches, err = files.OpenWatches(w.log, w.roots, w.state, opts)
	w.ok(err)
}

// reader reads the changes of a watch.
type reader struct {
	*watching
	*reprise.Reader
	release func()
}

func (w *watching) follow(id string, after reprise.Cursor) *reader {
	w.Helper()
	stream, release, err := w.watches.Follow(w.Context(), id)
	w.ok(err)
	r, err := stream.Reader(w.Context(), reprise.After(after))
	w.ok(err)
	return &reader{w, r, release}
}

// next returns the next n changes, each as "type path".
func (r *reader) next(n int) (got []string) {
	r.Helper()
	for event, err := range r.Events(r.Context()) {
		r.ok(err)
		var change client.FileChange
		r.ok(json.Unmarshal(event.Data, &change))
		text := event.Type + " " + change.Path
		if change.From != "" {
			text += " from " + change.From
		}
		if got = append(got, text); len(got) == n {
			break
		}
	}
	return got
}

func TestWatchTellsWhatHappens(t *testing.T) {
	w := newWatching(t, nil)
	w.file("old", "x")
	w.file("gone", "x")
	w.file("name", "x")
	watch, err := w.watches.Start(t.Context(), "work", true)
	w.ok(err)
	r := w.follow(watch.ID, watch.Cursor)
	defer r.release()
	defer r.Close()
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() { w.file("new", "text") }, []string{"created work/new"}},
		{func() { w.file("old", "y") }, []string{"modified work/old"}}, // of the same size
		{func() { w.ok(os.Chmod(filepath.Join(w.dir, "old"), 0o600)) }, []string{"modified work/old"}},
		{func() { w.ok(os.Remove(filepath.Join(w.dir, "gone"))) }, []string{"removed work/gone"}},
		{
			func() { w.ok(os.Rename(filepath.Join(w.dir, "name"), filepath.Join(w.dir, "named"))) },
			[]string{"moved work/named from work/name"},
		},
		{func() { w.ok(os.Mkdir(filepath.Join(w.dir, "sub"), 0o755)) }, []string{"created work/sub"}},
		{func() { w.file("sub/deep", "") }, []string{"created work/sub/deep"}},
		{func() { w.ok(os.RemoveAll(filepath.Join(w.dir, "sub"))) }, nil}, // may be seen in two steps
	} {
		step.do()
		if len(step.want) == 0 {
			got := r.next(2)
			slices.Sort(got)
			if !slices.Equal(got, []string{"removed work/sub", "removed work/sub/deep"}) {
				t.Errorf("got %q", got)
			}
			continue
		}
		if got := r.next(len(step.want)); !slices.Equal(got, step.want) {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
	again, err := w.watches.Start(t.Context(), "work", true)
	if err != nil || again.ID != watch.ID || again.Cursor.Seq != 9 {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestWatchGoesOnAfterARestart(t *testing.T) {
	w := newWatching(t, nil)
	w.file("a", "1")
	w.file("b", "1")
	watch, err := w.watches.Start(t.Context(), "work", false)
	w.ok(err)
	r := w.follow(watch.ID, watch.Cursor)
	w.file("a", "2")
	if got := r.next(1); got[0] != "modified work/a" {
		t.Fatalf("got %q", got)
	}
	at := r.Cursor()
	r.release()
	r.Close()
	w.ok(w.watches.Close())

	w.file("a", "3") // while nobody looks
	w.file("c", "1")
	w.file("dir/below", "not asked for")
	w.ok(os.Remove(filepath.Join(w.dir, "b")))
	w.openWatches(nil)
	r = w.follow(watch.ID, at)
	defer r.release()
	defer r.Close()
	got := r.next(4)
	want := []string{"removed work/b", "created work/c", "created work/dir", "modified work/a"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	w.file("d", "") // nothing of it came twice
	if got := r.next(1); got[0] != "created work/d" {
		t.Errorf("got %q", got)
	}
}

func TestWatchWithoutItsStateIsBegunAnew(t *testing.T) {
	w := newWatching(t, nil)
	watch, err := w.watches.Start(t.Context(), "work", true)
	w.ok(err)
	w.ok(w.watches.Close())
	w.ok(os.RemoveAll(w.state))
	w.openWatches(nil)
	if _, _, err := w.watches.Follow(t.Context(), watch.ID); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("%v", err)
	}
	again, err := w.watches.Start(t.Context(), "work", true)
	w.ok(err)
	stream, release, err := w.watches.Follow(t.Context(), again.ID)
	w.ok(err)
	defer release()
	_, err = stream.Reader(t.Context(), reprise.After(watch.Cursor))
	if refused, ok := errors.AsType[*reprise.WindowError](err); !ok || refused.Reason != reprise.EpochChanged {
		t.Errorf("a cursor from before was answered with %v", err)
	}
}

func TestWatchBounds(t *testing.T) {
	w := newWatching(t, &files.WatchOptions{Interval: time.Millisecond, MaxEntries: 3, MaxWatches: 2})
	for i := range 3 {
		w.file(fmt.Sprintf("dir/%d", i), "")
	}
	watch, err := w.watches.Start(t.Context(), "work/dir", true)
	w.ok(err)
	_, err = w.watches.Start(t.Context(), "work", true)
	if _, refused := errors.AsType[*files.FieldError](err); !refused {
		t.Errorf("too many entries: %v", err)
	}
	for _, p := range []string{"work/dir/1", "elsewhere", "work/none"} {
		if _, err := w.watches.Start(t.Context(), p, true); err == nil {
			t.Errorf("%s is watched", p)
		}
	}
	_, err = w.watches.Start(t.Context(), "work", false)
	w.ok(err)
	w.file("more/x", "")
	if _, err = w.watches.Start(t.Context(), "work/more", false); !errors.Is(err, reprise.ErrQuota) {
		t.Errorf("too many watches: %v", err)
	}
	r := w.follow(watch.ID, watch.Cursor)
	defer r.release()
	defer r.Close()
	w.file("dir/3", "")
	for event, err := range r.Events(t.Context()) {
		w.ok(err)
		if event.Type == reprise.TypeEnd {
			break
		}
	}
	if end := r.Info().End; end == nil || end.Outcome != "failed" {
		t.Errorf("the stream has ended as %+v", end)
	}
	w.eventually(func() bool { // it can be read to its end by who comes later
		stream, release, err := w.watches.Follow(t.Context(), watch.ID)
		if err == nil {
			release()
		}
		return err == nil && stream != nil
	})
}

func TestWatchThatNobodyReadsIsForgotten(t *testing.T) {
	w := newWatching(t, &files.WatchOptions{Interval: time.Millisecond, Linger: time.Nanosecond})
	watch, err := w.watches.Start(t.Context(), "work", true)
	w.ok(err)
	w.ok(w.watches.Close())
	w.openWatches(&files.WatchOptions{Forget: time.Nanosecond})
	w.eventually(func() bool { // to ask for the watch would be to read it
		left, err := os.ReadDir(w.state)
		return err == nil && len(left) == 0
	})
	if _, _, err := w.watches.Follow(t.Context(), watch.ID); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("%v", err)
	}
	w.ok(w.watches.Remove(t.Context(), watch.ID))
	w.ok(w.watches.Remove(t.Context(), "../../etc/passwd"))
}
