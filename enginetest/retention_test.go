package enginetest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// recordBytes is what an event takes whose data has at most 118 bytes.
func recordBytes(e reprise.Event) int64 { return int64(1 + 8 + len(e.Type) + len(e.Data)) }

// wantBytes compares what the stream says to keep with what it does keep. It may count up to
// slack more, for it trims in steps.
func wantBytes(tb testing.TB, s *reprise.Stream, slack int64) {
	tb.Helper()
	var actual int64
	for _, e := range kept(tb, s) {
		actual += recordBytes(e)
	}
	if says := info(tb, s).Bytes; says < actual || says > actual+slack {
		tb.Fatalf("%d bytes are kept, the stream says %d", actual, says)
	}
}

// TestCountBound: it holds exactly at each append, in the middle of a batch too.
func TestCountBound(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{MaxEvents: 10})
		tail := 0
		for _, n := range []int{3, 4, 5, 1, 10, 11, 25, 2, 9} {
			add(t, s, numbered(tail+1, n)...)
			tail += n
			want := min(tail, 10)
			if state := info(t, s); state.Kept() != uint64(want) {
				t.Fatalf("after %d events %d are kept", tail, state.Kept())
			}
			wantNumbered(t, kept(t, s), uint64(tail-want+1), want)
		}
	})
}

// eventOverhead is what the doc of Retention.MaxBytes says that an event counts in addition.
const eventOverhead = 48

// TestByteBound: it holds at each append, uses most of the room, and the newest batch is always kept.
func TestByteBound(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		const bound = 20_000
		s := create(t, log, "s", reprise.Retention{MaxBytes: bound})
		for i := range 400 {
			add(t, s, text(fmt.Sprintf("%0*d", i%100, i)))
			state := info(t, s)
			counted := state.Bytes + eventOverhead*int64(state.Kept())
			if counted > bound || i > 350 && counted < bound*9/10 {
				t.Fatalf("after %d appends %d bytes are kept, which count %d", i+1, state.Bytes, counted)
			}
		}
		wantBytes(t, s, bound/100)
		add(t, s, reprise.Event{Data: make([]byte, 2*bound)})
		if n := len(kept(t, s)); n != 1 {
			t.Errorf("%d events are kept after one above the bound, want it alone", n)
		}
		add(t, s, text("small"))
		if n := len(kept(t, s)); n != 1 {
			t.Errorf("%d events are kept, want the newest alone", n)
		}
	})
}

// TestBytesAfterAReload: what a stream keeps is known again when it comes back into memory, however
// often that happens, and no history is lost for bytes that are not there.
func TestBytesAfterAReload(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		const bound, size = 30_000, 100
		create(t, openLog(t, store, nil), "s", reprise.Retention{MaxBytes: bound, MaxEvents: 150})
		data := fmt.Sprintf("%0*d", size, 0)
		for range 20 {
			log := openLog(t, store, nil)
			s, err := log.Stream(t.Context(), named("s"))
			check(t, err)
			for range 25 {
				add(t, s, text(data), text(data))
				if bytes := info(t, s).Bytes; bytes > bound || bytes < 0 {
					t.Fatalf("%d bytes are kept", bytes)
				}
			}
			check(t, log.Close())
		}
		log := openLog(t, store, nil)
		s, err := log.Stream(t.Context(), named("s"))
		check(t, err)
		for range 300 {
			add(t, s, text(data))
		}
		if n := len(kept(t, s)); n != 150 {
			t.Errorf("%d events are kept, their number allows 150 and their bytes more", n)
		}
		wantBytes(t, s, 4*size)
	})
}

func TestTrimRemovesOldestEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		for i := 1; i <= 30; i += 3 {
			add(t, s, numbered(i, 3)...)
		}
		check(t, s.Trim(t.Context(), 11))
		wantNumbered(t, kept(t, s), 11, 20)
		wantBytes(t, s, 3*20)
		check(t, s.Trim(t.Context(), 5)) // gone already
		wantNumbered(t, kept(t, s), 11, 20)
		wantError(t, s.Trim(t.Context(), 32), reprise.ErrInvalid)

		again, err := openLog(t, store, nil).Stream(t.Context(), named("s"))
		check(t, err)
		wantNumbered(t, kept(t, again), 11, 20)
		check(t, again.Trim(t.Context(), 25))
		wantNumbered(t, kept(t, again), 25, 6)
		wantBytes(t, again, 3*20)
		check(t, again.Trim(t.Context(), 31))
		if state := info(t, again); state.Kept() != 0 || state.Bytes != 0 || state.Tail != 30 {
			t.Errorf("after all was trimmed: %+v", state)
		}
		r := openReader(t, again, reprise.Earliest())
		add(t, again, text("31"))
		events, _ := drain(t, r)
		wantNumbered(t, events, 31, 1)
		wantBytes(t, again, 0)
	})
}

// TestTotalsCostNoStreamItsEvents: with the bound of the tenant or of all reached, appends to open streams are refused,
// and none of these streams loses an event.
func TestTotalsCostNoStreamItsEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		for name, opts := range map[string]*reprise.Options{
			"tenant": {MaxTenantBytes: 10_000 + 4*reprise.StreamOverhead},
			"total":  {MaxTotalBytes: 10_000 + 4*reprise.StreamOverhead},
		} {
			log := openLog(t, store, opts)
			other, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "other", Name: name},
				reprise.StreamConfig{})
			check(t, err)
			quiet, noisy, late := create(t, log, name+"/quiet", reprise.Retention{}), create(t, log, name+"/noisy",
				reprise.Retention{}), create(t, log, name+"/late", reprise.Retention{})
			add(t, quiet, numbered(1, 20)...)
			before := info(t, quiet).Bytes
			appended := 0
			for i := range 300 {
				if _, err := noisy.Append(t.Context(), text(fmt.Sprintf("%0100d", i))); err == nil {
					appended++
				} else {
					wantError(t, err, reprise.ErrQuota)
				}
				if sum := before + info(t, noisy).Bytes; sum > 10_000+2*reprise.StreamOverhead {
					t.Fatalf("%s: %d bytes are kept", name, sum)
				}
			}
			wantNumbered(t, kept(t, quiet), 1, 20)
			if n := len(kept(t, noisy)); n < 70 || n != appended {
				t.Errorf("%s: the noisy stream keeps %d of %d events", name, n, appended)
			}
			_, err = late.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			wantError(t, err, reprise.ErrQuota)

			_, err = other.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			if name == "tenant" {
				check(t, err)
			} else {
				wantError(t, err, reprise.ErrQuota)
			}

			// The room of what is removed is free again, also for a Log that has opened since.
			check(t, log.Remove(t.Context(), noisy.Key()))
			_, err = late.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			check(t, err)
			check(t, log.Close())
			again := openLog(t, store, opts)
			late, err = again.Stream(t.Context(), late.Key())
			check(t, err)
			_, err = late.Append(t.Context(), reprise.Event{Data: make([]byte, 6000)})
			check(t, err)
			last := create(t, again, name+"/last", reprise.Retention{})
			_, err = last.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			wantError(t, err, reprise.ErrQuota)
			_, err = last.End(t.Context(), "completed", reprise.Event{Data: make([]byte, 2000)})
			check(t, err) // or it could never be swept
			for _, key := range []reprise.StreamKey{quiet.Key(), late.Key(), other.Key(), last.Key()} {
				check(t, again.Remove(t.Context(), key))
			}
			sizes, err := again.Sizes(t.Context())
			check(t, err)
			for tenant, size := range sizes {
				if size.Bytes != 0 {
					t.Errorf("%s: tenant %s is said to keep %+v", name, tenant, size)
				}
			}
			check(t, again.Close())
		}
	})
}

// TestHotTailsShareOneBound: the bytes of events in memory stay bounded with readers on every stream.
func TestHotTailsShareOneBound(t *testing.T) {
	const streams, room = 40, 200 << 10
	log := openLog(t, memory(t), &reprise.Options{TailBytes: 64 << 10, TailTotalBytes: room})
	handles := make([]*reprise.Stream, streams)
	for i := range handles {
		handles[i] = create(t, log, fmt.Sprint(i), reprise.Retention{})
		openReader(t, handles[i], reprise.Earliest())
	}
	data := make([]byte, 1000)
	for range 60 {
		for _, s := range handles {
			add(t, s, reprise.Event{Data: data})
		}
	}
	// The newest block of each may be as large as all that it had before, so the room can be exceeded, but not
	// by all that the streams may keep by themselves.
	if hot := log.Memory().TailBytes; hot > streams*40<<10 {
		t.Errorf("%d bytes are in memory", hot)
	}
	for _, s := range handles {
		if n := len(kept(t, s)); n != 60 {
			t.Fatalf("%d events, want 60", n)
		}
	}
}

// TestEvictionIsInvisible: streams come and go in memory, their handles and readers do not notice.
func TestEvictionIsInvisible(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{MaxStreams: 4})
		handles := make([]*reprise.Stream, 20)
		readers := make([]*reprise.Reader, 20)
		for i := range handles {
			handles[i] = create(t, log, fmt.Sprint(i), reprise.Retention{})
			if i%5 == 0 {
				readers[i] = openReader(t, handles[i], reprise.Earliest())
			}
		}
		for round := range 5 {
			for _, s := range handles {
				if first := add(t, s, numbered(round*2+1, 2)...).First; first != uint64(round*2+1) {
					t.Fatalf("event %d in round %d", first, round)
				}
			}
		}
		for i, s := range handles {
			wantNumbered(t, kept(t, s), 1, 10)
			if readers[i] != nil {
				events, _ := drain(t, readers[i])
				wantNumbered(t, events, 1, 10)
			}
		}
		if n := log.Memory().Streams; n > 12 {
			t.Errorf("%d streams are in memory", n)
		}
	})
}

// TestSystemTenantIsNotBounded: replicas must be able to beat when users have filled the store.
func TestSystemTenantIsNotBounded(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{MaxTotalBytes: 100 + 2*reprise.StreamOverhead + 20, SweepEvery: -1})
	full := createOn(t, log, "full")
	_, err := full.Append(t.Context(), text("0123456789012345678901234567890123456789012345678901234567890123456789"))
	check(t, err)
	if _, err := createOn(t, log, "other").Append(t.Context(),
		text("0123456789012345678901234567890123456789")); !errors.Is(err, reprise.ErrQuota) {
		t.Errorf("a user's append: %v, want ErrQuota", err)
	}
	s, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "s"},
		reprise.StreamConfig{})
	check(t, err)
	_, err = s.Append(t.Context(), text("0123456789012345678901234567890123456789"))
	check(t, err)
}

// TestBytesBoundEmptyEvents: the bytes bound a stream whatever the size of its events: at the default retention empty
// ones reach them before their number is reached.
func TestBytesBoundEmptyEvents(t *testing.T) {
	log := openLog(t, memstore.New(nil), nil)
	s := create(t, log, "s", reprise.Retention{MaxBytes: 64 << 10})
	for range 100 {
		add(t, s, make([]reprise.Event, 50)...)
	}
	const each = 48 + 9 + len("message")
	state := info(t, s)
	if n := int(state.Kept()); n > 64<<10/each || n < 64<<10/each*9/10 {
		t.Errorf("%d empty events are kept in 64 KiB", n)
	}
	d := reprise.DefaultRetention
	if d.MaxEvents < d.MaxBytes/int64(each+len("a line")) {
		t.Errorf("%d events are the bound, not the %d bytes", d.MaxEvents, d.MaxBytes)
	}
}

// TestJobOfAnHourIsKeptWhole: 100,000 short lines, one every 36 ms, are all kept by default, and read from the start.
func TestJobOfAnHourIsKeptWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 100_000
		log := openLog(t, memstore.New(nil), nil)
		s := create(t, log, "s", reprise.Retention{})
		for i := range lines {
			add(t, s, text(fmt.Sprintf("line %d", i+1)))
			time.Sleep(36 * time.Millisecond)
		}
		state := info(t, s)
		if state.Kept() != lines || state.Earliest != 1 {
			t.Fatalf("%d events are kept, from %d on", state.Kept(), state.Earliest)
		}
		if n := len(kept(t, s)); n != lines {
			t.Errorf("%d lines were read", n)
		}
	})
}
