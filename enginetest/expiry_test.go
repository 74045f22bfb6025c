package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// sweeping runs f in a bubble, over a store that finds expired streams by itself and over one
// that has to be listed.
func sweeping(t *testing.T, f func(*testing.T, reprise.Store)) {
	t.Helper()
	for _, able := range []bool{true, false} {
		t.Run(fmt.Sprint("sweeper=", able), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store reprise.Store = memstore.New(nil)
				if !able {
					store = newFaulty(store)
				}
				defer store.Close()
				f(t, store)
			})
		})
	}
}

// TestAgeCountsFromTheEnd: it counts from the end, and what has not ended stays.
func TestAgeCountsFromTheEnd(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, Remember: 24 * time.Hour})
		defer log.Close()
		config := reprise.StreamConfig{Retention: reprise.Retention{MaxAge: time.Hour}}
		s, _, err := log.Create(t.Context(), named("ends"), config)
		check(t, err)
		open := create(t, log, "open", reprise.Retention{MaxAge: time.Hour})
		add(t, s, numbered(1, 5)...)
		add(t, open, numbered(1, 5)...)
		bytes := info(t, s).Bytes
		r := openReader(t, s, reprise.Earliest())
		time.Sleep(2 * time.Hour)
		end(t, s)
		if expires := info(t, s).End.Expires; !expires.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("it expires at %v", expires)
		}

		time.Sleep(time.Hour - time.Millisecond)
		result, err := log.Sweep(t.Context())
		if err != nil || result.Streams != 0 {
			t.Fatalf("a moment too early: %+v, %v", result, err)
		}
		time.Sleep(time.Millisecond)
		result, err = log.Sweep(t.Context())
		if err != nil || result.Streams != 1 || result.Events != 6 || result.Bytes <= bytes {
			t.Fatalf("%+v, %v", result, err)
		}
		for range 2 {
			_, err = r.Poll(t.Context())
			wantError(t, err, reprise.ErrExpired)
		}
		_, err = s.Info(t.Context())
		wantError(t, err, reprise.ErrExpired)
		_, err = log.Stream(t.Context(), named("ends"))
		wantError(t, err, reprise.ErrExpired)
		time.Sleep(24*time.Hour + time.Millisecond)
		_, err = log.Stream(t.Context(), named("ends"))
		wantError(t, err, reprise.ErrNotFound)
		wantNumbered(t, kept(t, open), 1, 5)
	})
}

// TestNameOfASweptStream is free again at once, for another life.
func TestNameOfASweptStream(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		defer log.Close()
		s := create(t, log, "s", reprise.Retention{MaxAge: time.Minute})
		end(t, s)
		old := s.Cursor(1)
		time.Sleep(time.Minute)
		_, err := log.Sweep(t.Context())
		check(t, err)
		again := create(t, log, "s", reprise.Retention{MaxAge: time.Minute})
		_, err = again.Reader(t.Context(), reprise.After(old))
		windowError(t, err, reprise.EpochChanged)
		_, err = log.Sweep(t.Context())
		check(t, err)
		add(t, again, text("1"))
		wantNumbered(t, kept(t, again), 1, 1)
	})
}

// TestSweepByItself: in the background, and more streams than are removed at a time.
func TestSweepByItself(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		const streams = 1201
		swept := make(chan reprise.SweepResult, 10)
		log := openLog(t, store, &reprise.Options{
			SweepEvery: 10 * time.Minute,
			Hooks: &reprise.Hooks{Swept: func(result reprise.SweepResult, err error) {
				if err != nil {
					t.Error(err)
				}
				swept <- result
			}},
		})
		defer log.Close()
		for i := range streams {
			end(t, create(t, log, fmt.Sprint(i), reprise.Retention{MaxAge: time.Minute}))
		}
		start := time.Now()
		if result := <-swept; result.Streams != streams || result.Events != streams {
			t.Errorf("%+v", result)
		}
		if took := time.Since(start); took != 10*time.Minute {
			t.Errorf("the sweep came after %v", took)
		}
		sizes, err := log.Sizes(t.Context())
		if err != nil || sizes[reprise.DefaultTenant].Streams != 0 {
			t.Errorf("%+v, %v", sizes, err)
		}
	})
}

// TestSweepGivesRoom: what was swept no longer counts against the tenant.
func TestSweepGivesRoom(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxTenantBytes: 10_000})
		defer log.Close()
		large := reprise.Event{Data: make([]byte, 9000)}
		s, late := create(t, log, "s", reprise.Retention{MaxAge: time.Minute}), create(t, log, "late",
			reprise.Retention{})
		add(t, s, large)
		_, err := late.Append(t.Context(), large)
		wantError(t, err, reprise.ErrQuota)
		end(t, s)
		time.Sleep(time.Minute)
		_, err = log.Sweep(t.Context())
		check(t, err)
		add(t, late, large)
	})
}

// TestSweepOfATenantsLastStream: who keeps nothing any more has all of the room.
func TestSweepOfATenantsLastStream(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxTenantBytes: 10_000})
		defer log.Close()
		for i := range 3 {
			s := create(t, log, fmt.Sprint(i), reprise.Retention{MaxAge: time.Minute})
			add(t, s, reprise.Event{Data: make([]byte, 9000)})
			end(t, s)
			time.Sleep(time.Minute)
			_, err := log.Sweep(t.Context())
			check(t, err)
		}
	})
}

// TestQuotaCountsStreamsBesideEvents: labels, Meta and the streams themselves take room, and give it back.
func TestQuotaCountsStreamsBesideEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		ctx := t.Context()
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxTenantBytes: 1 << 20})
		wide := reprise.StreamConfig{Labels: map[string]string{}}
		for i := range 64 {
			wide.Labels[fmt.Sprintf("label-%032d", i)] = strings.Repeat("v", 256)
		}
		made := 0
		for ; made < 600; made++ {
			_, _, err := log.Create(ctx, named(fmt.Sprint("s", made)), wide)
			if errors.Is(err, reprise.ErrQuota) {
				break
			}
			check(t, err)
		}
		if made < 50 || made > 56 { // of 19 kB each
			t.Fatalf("%d streams were made in 1 MiB", made)
		}
		if _, created, err := log.Create(ctx, named("s0"), wide); created || err != nil {
			t.Errorf("one that exists is not found: %v", err)
		}
		_, _, err := log.Create(ctx, named("s0"), reprise.StreamConfig{})
		wantError(t, err, reprise.ErrConflict)
		sizes, err := log.Sizes(ctx)
		check(t, err)
		if got := sizes[named("s0").Tenant].Overhead; got < 19_000*int64(made) || got > 2<<20 {
			t.Errorf("an overhead of %d bytes in %d streams", got, made)
		}
		_, _, err = log.Create(ctx, reprise.StreamKey{Tenant: "other", Name: "s"}, wide)
		check(t, err)
		check(t, log.Remove(ctx, named("s1")))
		s, _, err := log.Create(ctx, named("again"), wide)
		check(t, err)
		if _, err = s.End(ctx, "completed", reprise.Event{}); err != nil {
			t.Errorf("a stream of a full tenant cannot end: %v", err)
		}
	})
}

// TestListsAreBoundedInBytes: a page of streams with large configurations ends early, and the pages have all of them.
func TestListsAreBoundedInBytes(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		const streams = 250
		for i := range streams {
			config := reprise.StreamConfig{}
			if i < 200 {
				config.Meta = make([]byte, 60<<10)
			}
			_, _, err := log.Create(t.Context(), named(fmt.Sprint("s", i)), config)
			check(t, err)
		}
		query := reprise.ListQuery{Tenant: reprise.DefaultTenant, Limit: 1000}
		listed, largest := 0, int64(0)
		for {
			page, err := log.List(t.Context(), query)
			check(t, err)
			var size int64
			for _, info := range page.Streams {
				if listed++; info.Key != named(fmt.Sprint("s", streams-listed)) {
					t.Fatalf("stream %d of the list is %s", listed, info.Key)
				}
				size += info.Overhead()
			}
			largest = max(largest, size)
			if query.After = page.Next; query.After == "" {
				break
			}
		}
		if listed != streams || largest > 8<<20 {
			t.Errorf("%d streams were listed, in pages of up to %d bytes", listed, largest)
		}
	})
}

// TestListsHaveWhatIsAskedForAlone: with conditions, pages have the streams that meet all of them as they are now,
// whether the store knows of conditions or lists everything.
func TestListsHaveWhatIsAskedForAlone(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		const streams = 60
		var found [streams]int // how many conditions have found the stream
		for i := range streams {
			config := reprise.StreamConfig{Labels: map[string]string{"third": fmt.Sprint(i % 3)}}
			s, _, err := log.Create(t.Context(), named(fmt.Sprint("s", i)), config)
			check(t, err)
			if i%2 == 0 {
				_, err = s.End(t.Context(), "completed", reprise.Event{})
				check(t, err)
			}
		}
		for _, q := range []reprise.ListQuery{
			{Open: true, Limit: 7},
			{Labels: map[string]string{"third": "1"}, Limit: 1000},
			{Open: true, Labels: map[string]string{"third": "1"}, Limit: 1},
			{Labels: map[string]string{"third": "1", "half": "1"}, Limit: 10},
		} {
			q.Tenant = reprise.DefaultTenant
			for {
				page, err := log.List(t.Context(), q)
				check(t, err)
				for _, info := range page.Streams {
					var i int
					_, err := fmt.Sscanf(info.Key.Name, "s%d", &i)
					check(t, err)
					found[i]++
				}
				if q.After = page.Next; q.After == "" {
					break
				}
			}
		}
		for i, n := range found {
			want := 0
			if i%2 == 1 {
				want++
			}
			if i%3 == 1 {
				want += 1 + i%2
			}
			if n != want {
				t.Errorf("stream %d is found %d times, want %d", i, n, want)
			}
		}
	})
}
