package natsstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
)

// lossy is a server whose files are put back to an earlier state.
type lossy struct {
	t      *testing.T
	server *testserver.NATSServer
	files  string
}

// save keeps the files as they are, which the server does not notice.
func (l *lossy) save() {
	l.t.Helper()
	l.files = filepath.Join(l.t.TempDir(), "files")
	must(l.t, l.server.Pause())
	must(l.t, os.CopyFS(l.files, os.DirFS(l.server.Dir())))
	must(l.t, l.server.Resume())
}

// lose has the server lose what it has acknowledged since.
func (l *lossy) lose() {
	l.t.Helper()
	must(l.t, l.server.Kill())
	must(l.t, os.RemoveAll(l.server.Dir()))
	must(l.t, os.CopyFS(l.server.Dir(), os.DirFS(l.files)))
	must(l.t, l.server.Start())
}

// appendMore appends events, a batch each, in whatever epoch the stream is.
func appendMore(t *testing.T, s *natsstore.Store, key reprise.StreamKey, events int) reprise.StreamInfo {
	t.Helper()
	info := *tail(t, s, key)
	for range events {
		appendTo(t, s, &info, 1, []byte(label(info.Tail+1)))
	}
	return info
}

// isForkOf checks that a stream has gone on in another epoch than before, which it shares up to an event.
func isForkOf(t *testing.T, now *reprise.StreamInfo, before reprise.Epoch, fork uint64) {
	t.Helper()
	if now.Epoch == before {
		t.Errorf("the epoch is the same after events were lost: %s", before)
	}
	if got, ok := now.ForkOf(before); !ok || got != fork {
		t.Errorf("it shares %d events with the epoch before (%v), want %d", got, ok, fork)
	}
}

// A server loses events, and all replicas that have seen them are gone: whoever comes first gives the stream another
// epoch, so that a cursor behind the lost events does not become one among those that took their places.
func TestUnseenLossChangesEpoch(t *testing.T) {
	look := map[string]func(*testing.T, *natsstore.Store, reprise.StreamInfo){
		"read": func(t *testing.T, s *natsstore.Store, info reprise.StreamInfo) {
			_, err := s.Read(t.Context(), info.Key, info.Tail, 1<<20)
			must(t, err)
		},
		"append": func(t *testing.T, s *natsstore.Store, info reprise.StreamInfo) {
			info.Tail = 10
			errs := s.Append(t.Context(), []reprise.AppendRequest{request(&info, 1, []byte(label(11)))})
			if errs == nil || !errors.Is(errs[0], reprise.ErrNotFound) {
				t.Errorf("an append at the tail that is left, in the epoch before: %v", errs)
			}
		},
		"create": func(t *testing.T, s *natsstore.Store, info reprise.StreamInfo) {
			again := reprise.StreamInfo{Key: info.Key, Epoch: reprise.NewEpoch(), Config: info.Config}
			_, err := s.Create(t.Context(), again)
			must(t, err)
		},
		"trim": func(t *testing.T, s *natsstore.Store, info reprise.StreamInfo) {
			// It says which epoch it means, and that is not there any more.
			must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 2, Kept: 9, Epoch: info.Epoch}))
		},
	}
	for name, first := range look {
		t.Run(name, func(t *testing.T) {
			l := &lossy{t: t, server: testserver.NATS(t, nil)}
			where := place(l.server, "")
			key := create(t, openWhenThere(t, where), "s").Key
			before, err := natsstore.Open(t.Context(), where, nil)
			must(t, err)
			appendMore(t, before, key, 10)
			l.save()
			lost := appendMore(t, before, key, 5)
			must(t, before.Close())
			l.lose()

			s := openWhenThere(t, where)
			first(t, s, lost)
			now := tail(t, s, key)
			isForkOf(t, now, lost.Epoch, 10)
			if after := appendMore(t, s, key, 5); after.Tail != 15 || after.Epoch != now.Epoch {
				t.Errorf("%d events in epoch %s after 5 more, want 15 in %s", after.Tail, after.Epoch, now.Epoch)
			}
			if got := len(all(t, s, key)); got != 15 {
				t.Errorf("%d batches can be read, want 15", got)
			}
		})
	}
}

// A server loses events and others append as many again before the replica looks that has seen those that were lost.
func TestLossIsToldWhenAsMuchIsThereAgain(t *testing.T) {
	l := &lossy{t: t, server: testserver.NATS(t, nil)}
	where := place(l.server, "")
	seen := openWhenThere(t, where)
	key := create(t, seen, "s").Key
	appendMore(t, seen, key, 10)
	l.save()
	lost := appendMore(t, seen, key, 5)
	l.lose()
	other := openWhenThere(t, where)
	appendMore(t, other, key, 7)
	now := tail(t, seen, key)
	isForkOf(t, now, lost.Epoch, 10)
	if now.Tail != 17 {
		t.Errorf("the tail is %d, want 17", now.Tail)
	}
	errs := seen.Append(t.Context(), []reprise.AppendRequest{request(&lost, 1, []byte(label(16)))})
	if errs == nil || !errors.Is(errs[0], reprise.ErrNotFound) {
		t.Errorf("an append behind the events that were lost: %v", errs)
	}
	all(t, seen, key)
}

// A replica that has seen events that were lost appends behind them, when the newest message of the stream has the very
// sequence that the last of those had.
func TestAppendBehindLostEventsIsRefusedAtTheSameSequence(t *testing.T) {
	l := &lossy{t: t, server: testserver.NATS(t, nil)}
	where := place(l.server, "")
	seen := openWhenThere(t, where)
	key := create(t, seen, "s").Key
	appendMore(t, seen, key, 10)
	l.save()
	lost := appendMore(t, seen, key, 5)
	l.lose()
	other := openWhenThere(t, where)
	now := appendMore(t, other, key, 3) // after a message for the start, and one for the epoch
	errs := seen.Append(t.Context(), []reprise.AppendRequest{request(&lost, 1, []byte(label(16)))})
	if errs == nil || !errors.Is(errs[0], reprise.ErrNotFound) {
		t.Errorf("an append behind the events that were lost: %v", errs)
	}
	if at := tail(t, seen, key); at.Tail != 13 || at.Epoch != now.Epoch {
		t.Errorf("the tail is %d in epoch %s, want 13 in %s", at.Tail, at.Epoch, now.Epoch)
	}
	all(t, seen, key)
}

// A request to delete messages before the window waits while a server loses the window's move. Its sequences are those
// of other messages then, so it is not sent.
func TestPurgeIsForTheServerThatItsSequencesAreOf(t *testing.T) {
	l := &lossy{t: t, server: testserver.NATS(t, nil)}
	proxy := newCutter(t, l.server.Addr())
	where := place(l.server, "")
	behind := openWhenThere(t, strings.Replace(where, l.server.Addr(), proxy.addr(), 1))
	key := create(t, behind, "s").Key
	info := appendMore(t, behind, key, 50)
	l.save()
	lost := make(chan struct{})
	proxy.cutInstead("STREAM.PURGE", func() {
		defer close(lost)
		l.lose()
	})
	must(t, behind.Remove(t.Context(), key, reprise.RemoveSpec{Trim: 41, Kept: info.Bytes / 5}))
	<-lost
	must(t, behind.Close()) // it runs the jobs that are left
	again := openWhenThere(t, where)
	if now := tail(t, again, key); now.Earliest != 1 {
		t.Fatalf("the window begins at %d: the loss came too late", now.Earliest)
	}
	if n := len(all(t, again, key)); n != 50 {
		t.Errorf("%d of 50 batches are left", n)
	}
}

// A server that was started again and has lost nothing costs one epoch, in which everything is as it was. An ended
// stream, which nothing can follow, stays in its own, and so does any with restart=keeps.
func TestRestartLosesNothing(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "")
	s := openWhenThere(t, where)
	open, ended := create(t, s, "open"), create(t, s, "ended")
	before := appendMore(t, s, open.Key, 3)
	req := request(&ended, 1, []byte(label(1)))
	req.End = &reprise.End{Outcome: "completed", Time: time.Now(), Expires: time.Now().Add(time.Hour)}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs[0])
	}
	must(t, server.Kill())
	must(t, server.Start())
	keeps := openWhenThere(t, where+"&restart=keeps")
	if got := tail(t, keeps, open.Key); got.Epoch != before.Epoch || got.Tail != 3 {
		t.Errorf("with restart=keeps: %+v", got)
	}
	after := tail(t, s, open.Key)
	isForkOf(t, after, before.Epoch, 3)
	if again := tail(t, openWhenThere(t, where), open.Key); again.Epoch != after.Epoch {
		t.Errorf("another replica gives it another epoch once more: %s, not %s", again.Epoch, after.Epoch)
	}
	if got := tail(t, s, ended.Key); got.Epoch != ended.Epoch || got.End == nil {
		t.Errorf("a stream that has ended: %+v", got)
	}
	if got := appendMore(t, s, open.Key, 2); got.Epoch != after.Epoch || len(got.Lineage) != 1 {
		t.Errorf("it goes on as %+v", got)
	}
	all(t, s, open.Key)
}
