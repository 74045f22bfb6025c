package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"reprise"
)

// restingStore has so many ended streams that rest. Every tenth stays open, and has got an event since.
func restingStore(t *testing.T, d *simDisk, n int) *Store {
	t.Helper()
	s, err := open(d, exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for i := range n {
		info := reprise.StreamInfo{Key: testKey(fmt.Sprint("kept:", i)), Epoch: "e", Created: day(1)}
		info.Config.Labels = map[string]string{"n": fmt.Sprint(i % 3)}
		req := reprise.AppendRequest{Key: info.Key, Epoch: "e", First: 1, Count: 1, Bytes: []byte("one"), Kept: 3}
		if i%10 != 0 {
			req.End = &reprise.End{Outcome: "completed", Time: day(1), Expires: day(2 + i%20)}
		}
		if _, err := s.CreateAppend(t.Context(), info, req); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.saveSnapshot(false); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEndedStreamsRest: streams that have ended take no more than their bytes, after a second snapshot those
// that have not changed since the first, and a store that is opened wakes none. Reads and lists let them rest.
func TestEndedStreamsRest(t *testing.T) {
	d := newSimDisk()
	s := restingStore(t, d, 100)
	if n := len(s.streams.awake); n != 10 {
		t.Errorf("%d of 100 streams are awake, 90 of them ended", n)
	}
	info := s.get(testKey("kept:0")).info()
	appendTo(t, s, &info, 1, []byte("two"))
	if err := s.saveSnapshot(false); err != nil {
		t.Fatal(err)
	}
	if n := len(s.streams.awake); n != 1 {
		t.Errorf("%d streams are awake, and one has changed", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := open(d, exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	wants := func(q reprise.ListQuery, want int) {
		t.Helper()
		q.AllNamespaces, q.Limit = true, 1000
		page, err := s.List(t.Context(), q)
		if err != nil || len(page.Streams) != want {
			t.Errorf("%+v: %d streams, %v, want %d", q, len(page.Streams), err, want)
		}
	}
	wants(reprise.ListQuery{}, 100)
	wants(reprise.ListQuery{Open: true}, 10)
	wants(reprise.ListQuery{Labels: map[string]string{"n": "1"}}, 33)
	wants(reprise.ListQuery{Labels: map[string]string{"n": "0"}, Open: true}, 4)
	page, err := s.Read(t.Context(), testKey("kept:11"), 0, 100)
	if err != nil || len(page.Batches) != 1 || string(page.Batches[0].Bytes) != "one" || page.Info.End == nil {
		t.Errorf("%+v, %v", page, err)
	}
	if n := len(s.streams.awake); n != 0 {
		t.Errorf("%d streams are awake", n)
	}
}

// TestOpenStreamsAreFoundBesideEndedOnes: a list of open streams looks at no others, however many there are.
func TestOpenStreamsAreFoundBesideEndedOnes(t *testing.T) {
	s, info := openWithStream(t, newSimDisk())
	for id := uint64(2); id < 30_000; id++ {
		s.add(s.stream(id, &reprise.StreamInfo{
			Key: testKey(fmt.Sprint("ended", id)), Earliest: 1, End: &reprise.End{Expires: day(1)},
		}))
	}
	page, err := s.List(t.Context(), reprise.ListQuery{Open: true, Limit: 10})
	if err != nil || len(page.Streams) != 1 || page.Streams[0].Key != info.Key || page.Next != "" {
		t.Errorf("the first page has %d streams, and there is more: %q, %v", len(page.Streams), page.Next, err)
	}
	req := reprise.AppendRequest{Key: info.Key, Epoch: "e", First: 1, Count: 1, End: &reprise.End{Expires: day(1)}}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs)
	}
	page, err = s.List(t.Context(), reprise.ListQuery{Open: true, Limit: 10})
	if err != nil || len(page.Streams) != 0 || page.Next != "" {
		t.Errorf("%+v, %v, after the last one has ended", page, err)
	}
}

// TestStreamsAtRestAreChanged: a stream that rests is changed like any other one, also in a snapshot that
// is written meanwhile, and stays after the next start.
func TestStreamsAtRestAreChanged(t *testing.T) {
	d := newSimDisk()
	s := restingStore(t, d, 60)
	if err := s.saveSnapshot(false); err != nil { // the open ones rest too
		t.Fatal(err)
	}
	change := func(n int) error {
		open := func(i int) reprise.StreamInfo { return s.get(testKey(fmt.Sprint("kept:", 10*i))).info() }
		switch info := open(n); n {
		case 0:
			appendTo(t, s, &info, 1, []byte("two"))
			return nil
		case 1:
			return s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 2})
		case 2:
			return s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Remember: day(25)})
		case 3:
			info.Revision, info.Config.Meta = 1, []byte("changed")
			_, err := s.Create(t.Context(), info)
			return err
		case 4:
			return s.Remove(t.Context(), info.Key, reprise.RemoveSpec{})
		case 5:
			req := reprise.AppendRequest{Key: info.Key, Epoch: "e", First: 2, Count: 1, Bytes: []byte("two"), Kept: 6}
			req.End = &reprise.End{Outcome: "completed", Time: day(1), Expires: day(12)}
			return errors.Join(s.Append(t.Context(), []reprise.AppendRequest{req})...)
		}
		return nil
	}
	// The first changes come when a part of the streams is saved.
	writes, n := 0, 0
	d.before = func(call, name string) (err error) {
		if writes++; call == "write" && name == tmpName && writes%3 == 0 && n < 3 {
			if err = change(n); n == 0 {
				err = errors.Join(err, change(5)) // which is not saved yet
			}
			n++
		}
		return err
	}
	if err := s.saveSnapshot(false); err != nil || n != 3 {
		t.Fatalf("%d changes, %v", n, err)
	}
	d.before = nil
	for ; n < 5; n++ {
		if err := change(n); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Sweep(t.Context(), day(10), day(25), 1000)
	if err != nil {
		t.Fatal(err)
	}
	want, err := printStore(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept:3", "kept:20", "kept:40"} {
		if st := s.get(testKey(name)); st != nil && !st.mark {
			t.Errorf("%s was removed and is there", name)
		}
	}
	if wrong, err := s.Check(context.Background()); err != nil || len(wrong) > 0 {
		t.Errorf("Check: %q, %v", wrong, err)
	}
	for range 2 { // from the log, and from a snapshot
		if s, err = open(d.settled(), exploreOptions()); err != nil {
			t.Fatal(err)
		}
		if got, err := printStore(s); got != want || err != nil {
			t.Errorf("after a start: %v\n%s\nwant\n%s", err, got, want)
		}
		if err := s.saveSnapshot(false); err != nil {
			t.Fatal(err)
		}
		d = s.disk.(*simDisk)
	}
}

// TestSkimmedIsWhatIsDecoded of random streams and marks.
func TestSkimmedIsWhatIsDecoded(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	text := func(most int) string { return string(make([]byte, random.IntN(most))) + fmt.Sprint(random.IntN(9)) }
	values := newState().shared
	for id := range uint64(500) {
		info := reprise.StreamInfo{
			Key: reprise.StreamKey{Tenant: reprise.Tenant(text(200)), Name: text(200)}, Epoch: "epoch", Created: day(1),
			Earliest: random.Uint64N(1000), Tail: 1000 + random.Uint64N(1000), Bytes: random.Int64N(1 << 40),
			Revision: random.Uint64N(2), Owner: reprise.Owner{Name: text(3), Fence: random.Uint64N(300)},
		}
		info.Config.Labels, info.Config.Meta = map[string]string{}, []byte(text(300))
		for range random.IntN(4) {
			info.Config.Labels[text(20)] = text(20)
			info.Producers = append(info.Producers, reprise.Producer{ID: text(9), Epoch: 1, Seq: 2, Last: 400})
			info.Lineage = append(info.Lineage, reprise.Ancestor{Epoch: reprise.Epoch(text(9)), Fork: 300})
		}
		if random.IntN(2) == 0 {
			info.End = &reprise.End{Outcome: text(20), Time: day(2), Expires: day(3 + random.IntN(9))}
			info.End.Data = []byte(text(9))
		}
		st := values.stream(id+1, &info)
		for n := range random.Uint64N(4) {
			st.runs.add(run{info.Earliest + n, uint32(n + 1), uint32(100 * n)})
		}
		if random.IntN(4) == 0 {
			st = values.marked(id+1, info.Key, day(7))
		}
		c := cutter{b: append(appendStream(nil, st), 0)}
		s := c.skim()
		if c.bad || len(c.b) != 1 || s.id != st.id || s.mark != st.mark || string(s.name) != st.key().Name ||
			string(s.tenant) != string(st.tenant.name) || st.end != nil && s.due != dueOf(st) {
			t.Fatalf("%+v of %+v", s, st)
		}
		if st.mark {
			continue
		}
		if s.ended != (st.end != nil) || s.earliest != st.earliest || s.tail != st.tail || s.bytes != st.bytes ||
			s.overhead != st.overhead() || !slices.Equal(slices.Collect(s.each), slices.Collect(st.runs.each)) {
			t.Fatalf("%+v of %+v", s, st)
		}
		for _, labels := range []map[string]string{nil, {text(20): text(20)}, info.Config.Labels} {
			q := reprise.ListQuery{Open: random.IntN(2) == 0, Labels: labels}
			if s.takes(&q) != q.Takes(&info) {
				t.Fatalf("%+v takes %t of %+v", q, s.takes(&q), info)
			}
		}
	}
}

// TestQueueGivesWhatIsDue: whatever is added, removed and gets another time, the queue gives each once and in order,
// and has at most twice as much, and some, as counts.
func TestQueueGivesWhatIsDue(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var q queue
	there := map[uint64]due{}
	counts := func(d due) bool { return there[d.id] == d }
	take := func(d due) *stream {
		if !counts(d) {
			return nil
		}
		return &stream{id: d.id, end: &reprise.End{Expires: time.Unix(d.seconds, int64(d.nanos))}}
	}
	for id := range uint64(5000) {
		d := due{int64(random.IntN(50)), id, uint32(random.IntN(2))}
		there[id] = d
		q.add(d)
		if other := random.Uint64N(id + 1); random.IntN(2) == 0 && there[other] != (due{}) {
			if random.IntN(2) == 0 {
				delete(there, other)
			} else { // and sometimes the one that it has
				there[other] = due{int64(random.IntN(50)), other, uint32(random.IntN(2))}
				q.add(there[other])
			}
			q.remove(counts)
		}
		if len(q.heap) > 2*len(there)+100 {
			t.Fatalf("%d times of %d streams", len(q.heap), len(there))
		}
		if id%97 != 0 {
			continue
		}
		now, want := time.Unix(int64(random.IntN(50)), 1), []due(nil)
		for _, d := range slices.SortedFunc(maps.Values(there), func(a, b due) int {
			return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(a.nanos, b.nanos), cmp.Compare(a.id, b.id))
		}) {
			if !d.after(now) && len(want) < 500 {
				want = append(want, d)
			}
		}
		var got []due
		for _, st := range q.first(now, 500, take) {
			got = append(got, dueOf(st))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v at %v, want %v", got, now, want)
		}
	}
}

// TestQueueOfWhatWasRemoved: what is removed before its time does not stay until then.
func TestQueueOfWhatWasRemoved(t *testing.T) {
	var q queue
	there := map[uint64]due{}
	for id := range uint64(1000) {
		there[id] = due{seconds: 1 << 40, id: id}
		q.add(there[id])
	}
	for id := range uint64(990) {
		delete(there, id)
		q.remove(func(d due) bool { return there[d.id] == d })
	}
	if len(q.heap) > 2*len(there)+100 {
		t.Errorf("%d times of %d streams", len(q.heap), len(there))
	}
}

// TestBedsAreGivenBack: the bytes of streams that do not rest any more go with the next snapshots.
func TestBedsAreGivenBack(t *testing.T) {
	s := restingStore(t, newSimDisk(), 400)
	kept := func() (bytes, used int) {
		for _, b := range s.streams.beds {
			bytes, used = bytes+len(b.bytes), used+b.used
		}
		return bytes, used
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := open(s.disk, exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	if bytes, used := kept(); bytes-used > 400 {
		t.Errorf("%d bytes after the start, %d of them used", bytes, used)
	}
	for n := range 400 {
		if n%4 != 0 {
			err = errors.Join(err, s.Remove(t.Context(), testKey(fmt.Sprint("kept:", n)), reprise.RemoveSpec{}))
		}
	}
	if err = errors.Join(err, s.saveSnapshot(false)); err != nil {
		t.Fatal(err)
	}
	if bytes, used := kept(); bytes > 2*used+300 {
		t.Errorf("%d bytes, %d of them used by the fourth that is left", bytes, used)
	}
}
