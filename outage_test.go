package reprise_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// refusingStore fails appends with an error.
type refusingStore struct {
	reprise.Store
	err atomic.Pointer[error]
}

func (s *refusingStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if err := s.err.Load(); err != nil {
		errs := make([]error, len(reqs))
		for i := range errs {
			errs[i] = *err
		}
		return errs
	}
	return s.Store.Append(ctx, reqs)
}

// The cause of an outage is logged once until it changes or the store answers again, however many calls fail.
func TestOutageIsLoggedOnceForEachCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusingStore{Store: memstore.New(nil)}
		var logged bytes.Buffer
		log, err := reprise.Open(t.Context(), store, &reprise.Options{
			Logger: slog.New(slog.NewTextHandler(&logged, nil)), SweepEvery: -1,
		})
		check(t, err)
		defer func() {
			check(t, log.Close())
			check(t, store.Close())
		}()
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
		s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{})
		check(t, err)
		appends := func(err error) {
			if err == nil {
				store.err.Store(nil)
			} else {
				store.err.Store(&err)
			}
			for i := range 50 {
				if _, got := s.Append(t.Context(),
					reprise.Event{Data: fmt.Append(nil, i)}); (got == nil) != (err == nil) {
					t.Fatalf("append: %v, want %v", got, err)
				}
				time.Sleep(10 * time.Second) // of the bubble
			}
		}
		full, readOnly := fmt.Errorf("%w: at 4096", reprise.DiskFull), fmt.Errorf("%w: x", reprise.ReadOnly)
		for _, err := range []error{full, full, readOnly, full, nil, full, nil} {
			appends(err)
		}
		for text, want := range map[string]int{
			`cause="disk full"`: 2, `cause="the store is read-only"`: 1, "the store answers again": 2, "at 4096": 2,
		} {
			if got := strings.Count(logged.String(), text); got != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", text, got, want, logged.String())
			}
		}
	})
}
