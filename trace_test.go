package reprise_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// pacedStore takes a time for each append, and fails those that it is told to.
type pacedStore struct {
	reprise.Store
	pace time.Duration
	fail error
}

func (s *pacedStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	time.Sleep(s.pace) // of the bubble
	if s.fail != nil {
		errs := make([]error, len(reqs))
		for i := range errs {
			errs[i] = s.fail
		}
		return errs
	}
	return s.Store.Append(ctx, reqs)
}

// An append is told when it asked, when its commit asked the store, when that answered, and what went with it.
func TestAppendTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := &pacedStore{Store: memstore.New(nil), pace: time.Second}
		log, err := reprise.Open(ctx, store, nil)
		check(t, err)
		defer log.Close()
		stream, _, err := log.Create(ctx, reprise.StreamKey{Tenant: "t", Name: "s"}, reprise.StreamConfig{})
		check(t, err)
		traced := func(producer *reprise.ProducerID, events int) (*reprise.AppendTrace, error) {
			trace := new(reprise.AppendTrace)
			_, err := stream.AppendWith(ctx, reprise.AppendOptions{Trace: trace, Producer: producer},
				make([]reprise.Event, events)...)
			return trace, err
		}
		begun := time.Now()
		var first, second *reprise.AppendTrace
		var appends sync.WaitGroup
		appends.Go(func() { first, _ = traced(nil, 2) })
		synctest.Wait()             // the first is with the store
		time.Sleep(time.Second / 4) // of the bubble
		appends.Go(func() { second, _ = traced(nil, 3) })
		appends.Wait()
		if first.Asked != begun || first.Began != begun || first.Stored != begun.Add(time.Second) ||
			first.Streams != 1 || first.Events != 2 || first.Bytes == 0 || first.Tries != 1 {
			t.Errorf("the first: %+v", first)
		}
		if second.Asked != begun.Add(time.Second/4) || second.Began != first.Stored ||
			second.Stored != second.Began.Add(time.Second) || second.Events != 3 {
			t.Errorf("the second: %+v", second)
		}
		producer := &reprise.ProducerID{ID: "p"}
		_, err = traced(producer, 1)
		check(t, err)
		if again, err := traced(producer, 1); err != nil || !again.Began.IsZero() || again.Asked.IsZero() {
			t.Errorf("a duplicate: %+v, %v", again, err)
		}
		store.fail = reprise.ErrUnavailable
		failed, err := traced(nil, 1)
		if !errors.Is(err, reprise.ErrUnavailable) || failed.Stored.Sub(failed.Began) != time.Second {
			t.Errorf("a failure: %+v, %v", failed, err)
		}
	})
}
