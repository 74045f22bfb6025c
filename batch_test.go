package reprise

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// encodeBatch is a batch as the committer makes it.
func encodeBatch(events ...Event) Batch {
	b := Batch{First: 1, Count: len(events)}
	for i := range events {
		b.Bytes = appendRecord(b.Bytes, &events[i], 0)
	}
	return b
}

// onePage is the block of a page of one batch.
func onePage(batch Batch) (*block, error) {
	b, rest, err := pageBlock([]Batch{batch})
	if err == nil && len(rest) > 0 {
		err = errBatch
	}
	return b, err
}

func TestRecordLayout(t *testing.T) {
	e := Event{Time: time.UnixMilli(0x010203040506), Type: "note", Data: []byte("hi"), Format: FormatJSON}
	want := append([]byte{14, 1, 2, 3, 4, 5, 6, byte(FormatJSON), 4}, "notehi"...)
	if got := appendRecord(nil, &e, 0); !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
	plain := appendRecord(nil, &Event{}, 7)
	if want := append([]byte{15, 0, 0, 0, 0, 0, 7, 0, 7}, "message"...); !bytes.Equal(plain, want) {
		t.Errorf("got % x, want % x", plain, want)
	}
}

func TestRecordTimesAreWithinTheirSixBytes(t *testing.T) {
	for _, moment := range []time.Time{
		time.UnixMilli(-1), time.Unix(0, 999_999),
		time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
	} {
		var e Event
		if err := decodeRecord(&e, appendRecord(nil, &Event{Time: moment}, 7)); err != nil || e.Time.UnixMilli() != 0 {
			t.Errorf("%v is kept as %v, %v", moment, e.Time, err)
		}
	}
	far := time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)
	var e Event
	if err := decodeRecord(&e, appendRecord(nil, &Event{Time: far}, 7)); err != nil || e.Time.UnixMilli() != 1<<48-1 {
		t.Errorf("%v is kept as %v, %v", far, e.Time, err)
	}
}

func TestPageBlockRefusesDamage(t *testing.T) {
	whole := encodeBatch(Event{Data: []byte("one")}, Event{Data: []byte("two")})
	for cut := range whole.Bytes {
		damaged := whole
		damaged.Bytes = whole.Bytes[:cut]
		if b, err := onePage(damaged); err == nil {
			t.Errorf("a batch cut at %d of %d bytes gives %d events", cut, len(whole.Bytes), len(b.ends))
		}
	}
	for _, count := range []int{1, 3} {
		if _, err := onePage(Batch{First: 1, Count: count, Bytes: whole.Bytes}); err == nil {
			t.Errorf("a batch of 2 events was taken for one of %d", count)
		}
	}
}

// TestClockFollowsAStepOfTheWallClock: the time of a commit is that of the wall clock a millisecond after that was set.
func TestClockFollowsAStepOfTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.milliseconds()
		c.nanos -= int64(time.Hour) // as if it was read before the step
		c.ms = 0                    // another commit
		time.Sleep(wallEvery)
		if got, want := c.milliseconds(), time.Now().UnixMilli(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	})
}

// TestRecordWithInvalidTypeLengthIsEmpty: a record whose type is longer than the record decodes as empty, and the
// events around it are unaffected.
func TestRecordWithInvalidTypeLengthIsEmpty(t *testing.T) {
	batch := encodeBatch(Event{Data: []byte("one")}, Event{Data: []byte("two")}, Event{Data: []byte("three")})
	second, err := recordEnd(batch.Bytes, 0)
	if err != nil {
		t.Fatal(err)
	}
	batch.Bytes[second+recordHead] = 200
	b, err := onePage(batch)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e := range b.eventsFrom(1, "").All() {
		got = append(got, string(e.Data))
	}
	if want := []string{"one", "", "three"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzRecord: encode and decode are inverse, and recordSize is exact.
func FuzzRecord(f *testing.F) {
	f.Add(int64(1), "stdout", []byte("data"), byte(0))
	f.Add(int64(1<<48-1), "", []byte{}, byte(2))
	f.Fuzz(func(t *testing.T, ms int64, typ string, data []byte, format byte) {
		e := Event{Time: time.UnixMilli(ms), Type: typ, Data: data, Format: Format(format)}
		if checkType(typ, false) != nil {
			return
		}
		b := appendRecord([]byte("before"), &e, 0)[len("before"):]
		if len(b) != recordSize(&e) {
			t.Fatalf("%d bytes, recordSize says %d", len(b), recordSize(&e))
		}
		if end, err := recordEnd(b, 0); err != nil || end != len(b) {
			t.Fatalf("recordEnd: %d of %d, %v", end, len(b), err)
		}
		var got Event
		if err := decodeRecord(&got, b); err != nil {
			t.Fatal(err)
		}
		if typ == "" {
			typ = TypeMessage
		}
		if got.Type != typ || !bytes.Equal(got.Data, data) || got.Format != e.Format ||
			got.Time.UnixMilli() != min(max(ms, 0), 1<<48-1) {
			t.Fatalf("%+v came back as %+v", e, got)
		}
	})
}

// FuzzPageBlock: whatever a store gives, decoding does not panic, and a block that is taken has
// as many events as was said, in records that cover it.
func FuzzPageBlock(f *testing.F) {
	f.Add(encodeBatch(Event{Type: "a", Data: []byte("x")}, Event{Data: []byte("y")}).Bytes, 2)
	f.Add(binary.AppendUvarint(nil, 1<<63), 1)
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, 1)
	f.Fuzz(func(t *testing.T, data []byte, count int) {
		if count < 1 || count > 1<<16 {
			return
		}
		b, err := onePage(Batch{First: 5, Count: count, Bytes: data})
		if err != nil {
			return
		}
		n := 0
		for e := range b.eventsFrom(5, "").All() {
			if e.Seq != uint64(5+n) {
				t.Fatalf("event %d at place %d", e.Seq, n)
			}
			n++
		}
		if n != count || int(b.ends[n-1]) != len(data) {
			t.Fatalf("%d events of %d, %d bytes of %d", n, count, b.ends[n-1], len(data))
		}
	})
}

func FuzzAppendTime(f *testing.F) {
	for _, t := range []int64{0, -1, 1 << 40, 253402300799999, 253402300800000, -62135596800000} {
		f.Add(t, 0)
	}
	f.Add(int64(1763632200123), -5*3600)
	f.Fuzz(func(t *testing.T, ms int64, offset int) {
		moment := time.UnixMilli(ms % (1 << 50)).In(time.FixedZone("", offset%(24*3600)))
		got, want := string(appendTime(nil, moment)), moment.UTC().Format("2006-01-02T15:04:05.000Z07:00")
		if got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// TestForkOfLostEpoch: the fork of an epoch that was lost is the earliest of those on the way to what is kept.
func TestForkOfLostEpoch(t *testing.T) {
	lv := &live{info: StreamInfo{Epoch: "x", Tail: 12, Lineage: []Ancestor{{Epoch: "a", Fork: 10}}}}
	after := StreamInfo{Epoch: "b", Tail: 7, Lineage: []Ancestor{{Epoch: "a", Fork: 7}}}
	lv.remember(&after)
	if want := []lostEpoch{{epoch: "x", parent: "a", fork: 7}}; !slices.Equal(lv.lost, want) {
		t.Errorf("lost are %v, want %v", lv.lost, want)
	}
	lv.info = after
	lv.lost = []lostEpoch{{epoch: "early", parent: "a", fork: 5}, {epoch: "late", parent: "a", fork: 9}}
	for epoch, want := range map[Epoch]uint64{"early": 5, "late": 7} {
		if fork, ok := lv.forkOf(epoch); fork != want || !ok {
			t.Errorf("the fork of %s is %d, want %d", epoch, fork, want)
		}
	}
}
