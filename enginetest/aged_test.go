package enginetest

import (
	"testing"
	"time"

	"reprise"
)

// createAged makes a stream whose events expire at the age bound.
func createAged(tb testing.TB, log *reprise.Log, name string, bound time.Duration) *reprise.Stream {
	tb.Helper()
	s, _, err := log.Create(tb.Context(), named(name), reprise.StreamConfig{
		Labels: map[string]string{reprise.MaxAgeEachLabel: bound.String()},
	})
	check(tb, err)
	return s
}

// wantExpired sweeps, and compares the number of removed events and the window of s.
func wantExpired(tb testing.TB, log *reprise.Log, s *reprise.Stream, removed int64, earliest, tail uint64) {
	tb.Helper()
	result, err := log.Sweep(tb.Context())
	check(tb, err)
	at := info(tb, s)
	if result.Events != removed || at.Earliest != earliest || at.Tail != tail {
		tb.Fatalf("%d events were removed, kept are %d to %d; want %d, %d to %d", result.Events, at.Earliest, at.Tail,
			removed, earliest, tail)
	}
	if (removed > 0) != (result.Bytes > 0) {
		tb.Fatalf("%d bytes were removed with %d events", result.Bytes, removed)
	}
}

// TestEventsOfOpenStreamExpire (G1): each event goes at its age, also one that shares a batch with a younger one, and a
// reader behind it is told. After the end MaxAge counts alone.
func TestEventsOfOpenStreamExpire(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		defer log.Close()
		s, other := createAged(t, log, "s", time.Hour), create(t, log, "other", reprise.Retention{})
		r := openReader(t, s, reprise.Earliest())
		wantExpired(t, log, s, 0, 1, 0)
		add(t, s, numbered(1, 3)...)
		add(t, other, numbered(1, 3)...)
		time.Sleep(30 * time.Minute)
		add(t, s, numbered(4, 2)...)
		wantExpired(t, log, s, 0, 1, 5)
		time.Sleep(30*time.Minute - time.Millisecond)
		wantExpired(t, log, s, 0, 1, 5)
		time.Sleep(time.Millisecond)
		wantExpired(t, log, s, 3, 4, 5)
		_, err := r.Poll(t.Context())
		windowErrorOf(t, err, reprise.CursorExpired)
		time.Sleep(time.Hour)
		wantExpired(t, log, s, 2, 6, 5)
		add(t, s, numbered(6, 1)...)
		time.Sleep(time.Hour - time.Millisecond)
		wantExpired(t, log, s, 0, 6, 6)
		_, err = s.End(t.Context(), "completed", reprise.Event{})
		check(t, err)
		time.Sleep(2 * time.Hour)
		wantExpired(t, log, s, 0, 6, 7)
		if at := info(t, other); at.Earliest != 1 || at.Tail != 3 {
			t.Errorf("another stream keeps %d to %d", at.Earliest, at.Tail)
		}
	})
}

// TestAgeOfEventsOutlivesARestart: a Log that has not seen the stream before finds it, however long it is.
func TestAgeOfEventsOutlivesARestart(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		opts := &reprise.Options{SweepEvery: -1}
		log := openLog(t, store, opts)
		s := createAged(t, log, "s", time.Hour)
		for i := range 20 {
			add(t, s, numbered(1000*i+1, 1000)...)
		}
		time.Sleep(time.Minute)
		add(t, s, numbered(20001, 10)...)
		check(t, log.Close())
		time.Sleep(time.Hour - time.Minute)
		log = openLog(t, store, opts)
		defer log.Close()
		result, err := log.Sweep(t.Context())
		check(t, err)
		s, err = log.Stream(t.Context(), s.Key())
		check(t, err)
		if at := info(t, s); result.Events != 20_000 || at.Earliest != 20_001 {
			t.Errorf("%d events were removed, the first is %d", result.Events, at.Earliest)
		}
	})
}

// TestChangedBoundsCountAtOnce: a stream that is in memory gets bounds, shorter ones, and none.
func TestChangedBoundsCountAtOnce(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		defer log.Close()
		s, idle := create(t, log, "s", reprise.Retention{}), create(t, log, "idle", reprise.Retention{})
		bound := func(s *reprise.Stream, label, value string) {
			t.Helper()
			_, err := s.Configure(t.Context(), func(config *reprise.StreamConfig) {
				config.Labels = map[string]string{label: value}
				if value == "" {
					config.Labels = nil
				}
			})
			check(t, err)
		}
		add(t, s, numbered(1, 3)...)
		time.Sleep(time.Hour)
		wantExpired(t, log, s, 0, 1, 3)
		bound(s, reprise.MaxAgeEachLabel, "24h")
		bound(idle, reprise.MaxIdleLabel, "24h")
		wantExpired(t, log, s, 0, 1, 3)
		bound(s, reprise.MaxAgeEachLabel, "30m")
		bound(idle, reprise.MaxIdleLabel, "30m")
		wantExpired(t, log, s, 3, 4, 3)
		add(t, s, numbered(4, 3)...)
		bound(s, reprise.MaxAgeEachLabel, "")
		time.Sleep(time.Hour)
		wantSweep(t, log, 1, 0)
		wantExpired(t, log, s, 0, 4, 6)
	})
}

// TestStreamsExpire: at the time of the label, which may be moved, a sweep removes a stream, whether it has ended or
// not, and after a restart too.
func TestStreamsExpire(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		opts := &reprise.Options{SweepEvery: -1}
		log := openLog(t, store, opts)
		expiring := func(name string, in time.Duration) *reprise.Stream {
			t.Helper()
			s, _, err := log.Create(t.Context(), named(name), reprise.StreamConfig{Labels: map[string]string{
				reprise.ExpiresLabel: time.Now().Add(in).Format(time.RFC3339Nano),
			}})
			check(t, err)
			add(t, s, numbered(1, 2)...)
			return s
		}
		wantGone := func(want ...string) {
			t.Helper()
			result, err := log.Sweep(t.Context())
			check(t, err)
			if result.Streams != int64(len(want)) {
				t.Errorf("%d streams were removed, want %q", result.Streams, want)
			}
			for _, name := range want {
				_, err := log.Stream(t.Context(), named(name))
				wantError(t, err, reprise.ErrNotFound)
			}
		}
		open, ended, moved := expiring("open", time.Hour), expiring("ended", time.Hour), expiring("moved", time.Hour)
		kept := create(t, log, "kept", reprise.Retention{})
		expiring("late", 2*time.Hour)
		wantGone()
		end(t, ended)
		_, err := moved.Configure(t.Context(), func(config *reprise.StreamConfig) {
			config.Labels[reprise.ExpiresLabel] = time.Now().Add(3 * time.Hour).Format(time.RFC3339Nano)
		})
		check(t, err)
		time.Sleep(time.Hour - time.Millisecond)
		wantGone()
		add(t, open, text("used"))
		time.Sleep(time.Millisecond)
		wantGone("open", "ended")
		check(t, log.Close())
		log = openLog(t, store, opts)
		defer log.Close()
		time.Sleep(time.Hour)
		wantGone("late")
		time.Sleep(time.Hour)
		wantGone("moved")
		kept, err = log.Stream(t.Context(), kept.Key())
		check(t, err)
		_, err = kept.Configure(t.Context(), func(config *reprise.StreamConfig) {
			config.Labels = map[string]string{reprise.ExpiresLabel: "tomorrow"}
		})
		wantError(t, err, reprise.ErrInvalid)
	})
}
