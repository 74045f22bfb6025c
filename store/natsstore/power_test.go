package natsstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
)

// part is the folder of one JetStream stream, which a loss of power may set back alone.
type part struct {
	t      *testing.T
	server *testserver.NATSServer
	dir    string
	saved  string
}

// save keeps the files of the JetStream stream as they are.
func (p *part) save() {
	p.t.Helper()
	p.saved = filepath.Join(p.t.TempDir(), "part")
	must(p.t, p.server.Pause())
	must(p.t, os.CopyFS(p.saved, os.DirFS(p.dir)))
	must(p.t, p.server.Resume())
}

// lose restarts the server with the files that were saved.
func (p *part) lose() {
	p.t.Helper()
	must(p.t, p.server.Kill())
	must(p.t, os.RemoveAll(p.dir))
	must(p.t, os.CopyFS(p.dir, os.DirFS(p.saved)))
	must(p.t, p.server.Start())
}

// createLabeled creates a stream whose configuration has its name as a label.
func createLabeled(t *testing.T, s *natsstore.Store, name string) reprise.StreamKey {
	t.Helper()
	info, err := s.Create(t.Context(), reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}, Epoch: reprise.NewEpoch(),
		Created: time.UnixMilli(time.Now().UnixMilli()),
		Config:  reprise.StreamConfig{Labels: map[string]string{"name": name}},
	})
	must(t, err)
	return info.Key
}

// answer reads until a store answers for a stream.
func answer(t *testing.T, s *natsstore.Store, key reprise.StreamKey) (page reprise.Page, err error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		page, err = s.Read(t.Context(), key, 0, 1<<20)
		if !errors.Is(err, reprise.ErrUnavailable) || time.Now().After(deadline) {
			return page, err
		}
	}
}

// check checks a store until it answers.
func check(t *testing.T, s *natsstore.Store) []string {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		wrong, err := s.Check(t.Context())
		if err == nil {
			return wrong
		}
		if !errors.Is(err, reprise.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// The index alone loses the record of a stream, and a stream that is created then gets its number: each is shown with
// its own configuration or as damaged, and the removal of the first leaves the record of the second.
func TestRecordOfAnotherStreamIsNeitherShownNorRemoved(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "")
	seen := openWhenThere(t, where)
	create(t, seen, "before")
	_, stream := behind(t, where)
	name := stream.CachedInfo().Config.Name
	index := &part{t: t, server: server, dir: filepath.Join(server.Dir(), "jetstream", "$G", "streams", name+"_INDEX")}
	index.save()
	lost := createLabeled(t, seen, "lost")
	index.lose()
	creator := openWhenThere(t, where)
	tail(t, seen, lost) // which has the record in its memory
	next := createLabeled(t, creator, "next")
	must(t, errors.Join(server.Kill(), server.Start())) // so that both are in another epoch than their records

	fresh := openWhenThere(t, where)
	if got := tail(t, fresh, next); got.Config.Labels["name"] != "next" {
		t.Errorf("the later stream is shown as %v", got.Config.Labels)
	}
	if page, err := fresh.Read(t.Context(), lost, 0, 0); !errors.Is(err, natsstore.ErrDamaged) {
		t.Errorf("the stream without a record is shown as %v: %v, want ErrDamaged", page.Info.Config.Labels, err)
	}
	if got := tail(t, seen, next); got.Config.Labels["name"] != "next" {
		t.Errorf("a replica that knows the lost record shows the later stream as %v", got.Config.Labels)
	}
	if wrong := check(t, fresh); len(wrong) != 1 || !strings.Contains(wrong[0], lost.String()) {
		t.Errorf("Check says %q, want a sentence about the stream without a record", wrong)
	}
	must(t, fresh.Remove(t.Context(), lost, reprise.RemoveSpec{}))
	must(t, fresh.Close()) // it runs the jobs that are left
	list, err := openWhenThere(t, where).List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	must(t, err)
	if len(list.Streams) != 2 || list.Streams[0].Key != next {
		t.Errorf("%d streams are listed after the removal of the one without a record, want 2", len(list.Streams))
	}
}

// A loss of power takes the message about the last start: the one about the start before shows that there was another,
// so that streams move to another epoch. Only so many of those messages are kept.
func TestLostMarkOfStartChangesEpoch(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "")
	s := openWhenThere(t, where)
	key := create(t, s, "s").Key
	appendMore(t, s, key, 3)
	restart := func() {
		t.Helper()
		must(t, errors.Join(server.Kill(), server.Start()))
	}
	restart()
	before := tail(t, s, key)
	js, stream := behind(t, where)
	marks := stream.CachedInfo().Config.Name + ".d.=.boot"
	mark, err := stream.GetLastMsgForSubject(t.Context(), marks)
	must(t, err)
	must(t, stream.DeleteMsg(t.Context(), mark.Sequence))
	restart()
	now := tail(t, openWhenThere(t, where), key)
	isForkOf(t, now, before.Epoch, 3)

	const most = 16
	for i := range most {
		_, err := js.Publish(t.Context(), marks, fmt.Appendf(nil, "1 start%d", i))
		must(t, err)
	}
	// A purge in the background may be lost, and the next start repeats it.
	const few = 1 + 3 + 3 + most // the stream has been created, appended to and moved to another epoch three times
	for starts := uint64(0); ; starts++ {
		restart()
		tail(t, s, key)
		must(t, s.Close()) // it runs the jobs that are left
		info, err := stream.Info(t.Context())
		must(t, err)
		if info.State.Msgs <= few+starts {
			return
		}
		if starts == 5 {
			t.Fatalf("%d messages are kept after %d starts, want %d at most", info.State.Msgs, starts, few+starts)
		}
		s = openWhenThere(t, where)
	}
}

// A loss of power takes the move of a window and not the purge after it: the window begins where events are. What is
// missing elsewhere, or without a restart of the server, is damage.
func TestPurgeWithoutMoveOfWindowMovesIt(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "")
	s := openWhenThere(t, where)
	key, hole := create(t, s, "s").Key, create(t, s, "hole").Key
	appendMore(t, s, key, 50)
	appendMore(t, s, hole, 50)
	_, stream := behind(t, where)
	name := stream.CachedInfo().Config.Name
	batch := func(key reprise.StreamKey, n int) uint64 { // the sequence of batch n
		t.Helper()
		subject := name + ".s.default." + key.Name
		seq := uint64(0)
		for range n + 1 { // the first message is the creation
			msg, err := stream.GetMsg(t.Context(), seq+1, jetstream.WithGetMsgSubject(subject))
			must(t, err)
			seq = msg.Sequence
		}
		return seq
	}
	must(t, stream.DeleteMsg(t.Context(), batch(hole, 45)))
	for _, key := range []reprise.StreamKey{key, hole} {
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(name+".s.default."+key.Name),
			jetstream.WithPurgeSequence(batch(key, 41))))
	}
	if _, err := s.Read(t.Context(), key, 0, 1); !errors.Is(err, natsstore.ErrDamaged) {
		t.Errorf("without a restart: %v, want ErrDamaged", err)
	}
	must(t, errors.Join(server.Kill(), server.Start()))
	tail(t, s, key) // moves to another epoch
	if wrong := check(t, s); len(wrong) != 2 {
		t.Errorf("Check says %q before a read has moved a window, want a sentence about each of two streams", wrong)
	}
	page, err := answer(t, openWhenThere(t, where), key)
	must(t, err)
	if page.Info.Earliest != 41 || page.Info.Tail != 50 || page.Info.Bytes != int64(10*len(label(50))) {
		t.Errorf("the window is %d to %d with %d bytes, want 41 to 50 with 30", page.Info.Earliest, page.Info.Tail,
			page.Info.Bytes)
	}
	appendMore(t, s, key, 5)
	if n := len(all(t, s, key)); n != 15 {
		t.Errorf("%d batches can be read after 5 more, want 15", n)
	}
	tail(t, s, hole)
	if _, err := answer(t, s, hole); !errors.Is(err, natsstore.ErrDamaged) {
		t.Errorf("with another hole in the window: %v, want ErrDamaged", err)
	}
	if now := tail(t, s, hole); now.Earliest != 1 {
		t.Errorf("a window with another hole was moved to %d", now.Earliest)
	}
}

// A full server has no room for the move of a window: that passes, so it is not damage.
func TestWindowThatFullServerCannotMoveIsUnavailable(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "&max_bytes=2000000")
	s := openWhenThere(t, where)
	key, other := create(t, s, "s").Key, create(t, s, "other").Key
	appendMore(t, s, key, 5)
	_, stream := behind(t, where)
	name := stream.CachedInfo().Config.Name
	newest, err := stream.GetLastMsgForSubject(t.Context(), name+".s.default."+key.Name)
	must(t, err)
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(newest.Subject),
		jetstream.WithPurgeSequence(newest.Sequence-1)))
	must(t, errors.Join(server.Kill(), server.Start()))
	tail(t, s, other) // marks the start
	js, stream := behind(t, where)
	fill := name + ".d.=.fill"
	for size := 100_000; size > 0; {
		if _, err := js.Publish(t.Context(), fill, make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if page, err := s.Read(t.Context(), key, 0, 1<<20); !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("while the server is full: %d batches, %v, want ErrUnavailable", len(page.Batches), err)
	}
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(fill)))
	page, err := answer(t, s, key)
	must(t, err)
	if page.Info.Earliest != 4 || len(page.Batches) != 2 {
		t.Errorf("with room again: %d batches from %d on, want 2 from 4", len(page.Batches), page.Info.Earliest)
	}
}

// A loss of power takes the trim of all events and not the purge after it: the stream is there, with its last batch.
func TestPurgeOfAllWithoutTrimLeavesStream(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "")
	s := openWhenThere(t, where)
	info := create(t, s, "s")
	big := make([]byte, 2<<20) // in parts
	for n := range uint64(5) {
		appendTo(t, s, &info, 1, append([]byte(label(n+1)), big...))
	}
	_, stream := behind(t, where)
	const kept, parts, boots = 2, 3, 1 // the last batch and the trim
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: info.Tail + 1}))
	messages(t, stream, kept+parts+boots)
	trim, err := stream.GetLastMsgForSubject(t.Context(), stream.CachedInfo().Config.Name+".s.default.s")
	must(t, err)
	must(t, stream.DeleteMsg(t.Context(), trim.Sequence))
	must(t, errors.Join(server.Kill(), server.Start()))
	page, err := answer(t, openWhenThere(t, where), info.Key)
	must(t, err)
	if page.Info.Earliest != 5 || page.Info.Tail != 5 || len(page.Batches) != 1 {
		t.Errorf("the window is %d to %d in %d batches, want the last of 5", page.Info.Earliest, page.Info.Tail,
			len(page.Batches))
	}
}

// The index alone loses the record of a stream, and its sequence is that of a stream of the same name afterwards: the
// removal of the first leaves the record of the second.
func TestRemovalLeavesRecordOfLaterStreamOfSameName(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "")
	s := openWhenThere(t, where)
	other := create(t, s, "other")
	js, stream := behind(t, where)
	name := stream.CachedInfo().Config.Name
	index, err := js.Stream(t.Context(), name+"_INDEX")
	must(t, err)
	later, err := index.GetLastMsgForSubject(t.Context(), name+".i.default.=."+other.Key.Name)
	must(t, err)
	lost := &part{t: t, server: server, dir: filepath.Join(server.Dir(), "jetstream", "$G", "streams", name+"_INDEX")}
	lost.save()
	key := create(t, s, "s").Key
	lost.lose()
	js, _ = behind(t, where)
	ack, err := js.Publish(t.Context(), name+".i.default.=.s", later.Data) // a record is the same under each name
	must(t, err)
	fresh := openWhenThere(t, where)
	must(t, fresh.Remove(t.Context(), key, reprise.RemoveSpec{}))
	must(t, fresh.Close()) // it runs the jobs that are left
	index, err = js.Stream(t.Context(), name+"_INDEX")
	must(t, err)
	if _, err := index.GetMsg(t.Context(), ack.Sequence); err != nil {
		t.Errorf("the later record: %v", err)
	}
}

// A server loses a stream with its record, and a stream of the same name is created in its place: a replica that has
// seen the lost one shows the configuration of the later one, also after that has moved to another epoch.
func TestRecordOfLostStreamIsNotShownForLaterOne(t *testing.T) {
	l := &lossy{t: t, server: testserver.NATS(t, nil)}
	where := place(l.server, "")
	seen := openWhenThere(t, where)
	create(t, seen, "before")
	l.save()
	key := createLabeled(t, seen, "s")
	l.lose()
	create(t, openWhenThere(t, where), "s") // without labels
	must(t, errors.Join(l.server.Kill(), l.server.Start()))
	if got := tail(t, seen, key); len(got.Config.Labels) != 0 {
		t.Errorf("the later stream is shown with the labels %v of the lost one", got.Config.Labels)
	}
}

// The index alone loses the records of streams that have ended: they are swept all the same.
func TestExpiredStreamWithoutItsRecordIsSwept(t *testing.T) {
	where := place(testserver.NATS(t, nil), "")
	s := openWhenThere(t, where)
	end := &reprise.End{Outcome: "completed", Time: time.UnixMilli(1000), Expires: time.UnixMilli(2000)}
	js, stream := behind(t, where)
	index, err := js.Stream(t.Context(), stream.CachedInfo().Config.Name+"_INDEX")
	must(t, err)
	for _, name := range []string{"one", "two"} {
		info := create(t, s, name)
		req := request(&info, 1, []byte(label(1)))
		req.End = end
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
			t.Fatal(errs[0])
		}
		record, err := index.GetLastMsgForSubject(t.Context(), stream.CachedInfo().Config.Name+".i.default.=."+name)
		must(t, err)
		must(t, index.DeleteMsg(t.Context(), record.Sequence))
	}
	fresh := openWhenThere(t, where)
	for _, want := range []int{2, 0} {
		swept, err := fresh.Sweep(t.Context(), time.Now(), time.Now().Add(time.Hour), 10)
		must(t, err)
		if len(swept) != want {
			t.Errorf("%d streams are swept, want %d", len(swept), want)
		}
	}
	one := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "one"}
	if _, err := answer(t, fresh, one); !errors.Is(err, reprise.ErrExpired) {
		t.Errorf("a swept stream: %v, want ErrExpired", err)
	}
}
