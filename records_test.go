package reprise_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/store/memstore"
)

// TestRecordsAreTheEventsOfALog: what a Log has appended is decoded from the bytes in its Store, and
// encoded to the same bytes again.
func TestRecordsAreTheEventsOfALog(t *testing.T) {
	ctx, store := t.Context(), memstore.New(nil)
	log, err := reprise.Open(ctx, store, nil)
	check(t, err)
	defer log.Close()
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
	stream, _, err := log.Create(ctx, key, reprise.StreamConfig{})
	check(t, err)
	moment := time.UnixMilli(1_700_000_000_123)
	want := []reprise.Event{
		{Seq: 1, Time: moment, Type: "stdout", Data: []byte("one\n")},
		{Seq: 2, Time: moment, Type: "note", Data: []byte(`{"n":2}`), Format: reprise.FormatMembers},
		{Seq: 3, Time: moment, Type: reprise.TypeMessage, Data: []byte{}},
	}
	_, err = stream.Append(ctx, want...)
	check(t, err)
	want = append(want, reprise.Event{Seq: 4, Time: moment, Type: reprise.TypeEnd, Data: []byte{}})
	_, err = stream.End(ctx, "completed", want[3])
	check(t, err)

	page, err := store.Read(ctx, key, 0, 1<<20)
	check(t, err)
	var got []reprise.Event
	for _, b := range page.Batches {
		var again []byte
		for e, err := range reprise.Records(b) {
			check(t, err)
			got = append(got, e)
			again, err = reprise.AppendRecord(again, &e)
			check(t, err)
		}
		if !bytes.Equal(again, b.Bytes) {
			t.Errorf("encoded again, the batch at %d has other bytes", b.First)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAppendRecordRefusesWhatALogRefuses(t *testing.T) {
	for _, e := range []reprise.Event{
		{Type: reprise.TypeGap},
		{Type: "with space"},
		{Format: 9},
		{Format: reprise.FormatJSON},
		{Format: reprise.FormatMembers, Data: []byte("[]")},
	} {
		b, err := reprise.AppendRecord([]byte("before"), &e)
		if !errors.Is(err, reprise.ErrInvalid) || string(b) != "before" {
			t.Errorf("%+v: %q, %v", e, b, err)
		}
	}
}

// TestRecordsOfADamagedBatch: an error is the last thing yielded, whatever is cut off or miscounted.
func TestRecordsOfADamagedBatch(t *testing.T) {
	var whole reprise.Batch
	for whole.First = 7; whole.Count < 3; whole.Count++ {
		var err error
		whole.Bytes, err = reprise.AppendRecord(whole.Bytes, &reprise.Event{Data: []byte("some data")})
		check(t, err)
	}
	damaged := func(b reprise.Batch, what string) {
		var last error
		for _, err := range reprise.Records(b) {
			if last != nil {
				t.Errorf("%s: something is yielded after the error", what)
			}
			last = err
		}
		if last == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for cut := range whole.Bytes {
		b := whole
		b.Bytes = whole.Bytes[:cut]
		damaged(b, "cut")
	}
	damaged(reprise.Batch{First: 7, Count: 2, Bytes: whole.Bytes}, "one event too many")
	damaged(reprise.Batch{First: 7, Count: 4, Bytes: whole.Bytes}, "one event too few")
	lying := bytes.Clone(whole.Bytes)
	lying[1+6+1] = 255 // the length of the type
	damaged(reprise.Batch{First: 7, Count: 3, Bytes: lying}, "a type longer than its record")
}

// FuzzRecords: no bytes make the decoder panic, and what it takes whole is encoded to events that are the same.
func FuzzRecords(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 4 {
		var b []byte
		for range n {
			data := make([]byte, rnd.IntN(200))
			b, _ = reprise.AppendRecord(b, &reprise.Event{Time: time.UnixMilli(1), Data: data})
		}
		f.Add(b, n)
	}
	f.Fuzz(func(t *testing.T, b []byte, count int) {
		events := 0
		var again []byte
		for e, err := range reprise.Records(reprise.Batch{First: 1, Count: count, Bytes: b}) {
			if err != nil {
				return
			}
			if events++; e.Seq != uint64(events) {
				t.Fatalf("event %d has seq %d", events, e.Seq)
			}
			if again, err = reprise.AppendRecord(again, &e); err != nil {
				return // taken from the store, but no Log would have appended it
			}
		}
		var repeated []reprise.Event
		for e, err := range reprise.Records(reprise.Batch{First: 1, Count: events, Bytes: again}) {
			if err != nil {
				t.Fatal(err)
			}
			repeated = append(repeated, e)
		}
		if len(repeated) != max(count, 0) {
			t.Fatalf("%d events of %d came back", len(repeated), count)
		}
	})
}
