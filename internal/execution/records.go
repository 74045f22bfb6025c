package execution

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"reprise"
)

// note appends records to the buckets of their names and, if they are those of executions, to the journal.
func (n *names) note(ctx context.Context, tenant reprise.Tenant, list []record) error {
	var writing sync.WaitGroup
	errs := make([]error, 2*len(list))
	for i := range list {
		r := &list[i]
		writing.Go(func() {
			errs[2*i] = n.keep(ctx, n.bucketOf(reprise.StreamKey{Tenant: tenant, Name: r.name}), r, n.ranPerBucket())
		})
		if r.ID == "" {
			writing.Go(func() { errs[2*i+1] = n.keep(ctx, journalOf(tenant), r, n.opts.RememberNames) })
		}
	}
	writing.Wait()
	return errors.Join(errs...)
}

// ranPerBucket is the maximum number of records in a bucket. Names are spread over the buckets by chance, so it is
// larger than an equal share by four standard deviations.
func (n *names) ranPerBucket() int64 {
	share := float64(n.opts.RememberNames) / ranBuckets
	return int64(math.Ceil(share + 4*math.Sqrt(share)))
}

// keep appends a record to a stream of at most that many.
func (n *names) keep(ctx context.Context, key reprise.StreamKey, r *record, most int64) error {
	s, err := n.appendTo(ctx, key, r.event())
	if err == nil {
		n.tidy(ctx, s, most)
	}
	return err
}

// appendTo appends an event to a stream of records, which is created with it if there is none.
func (n *names) appendTo(ctx context.Context, key reprise.StreamKey, e reprise.Event) (*reprise.Stream, error) {
	config := reprise.StreamConfig{Retention: ranRetention}
	s, err := n.log.Stream(ctx, key)
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		var created bool
		s, created, err = n.log.CreateWith(ctx, reprise.CreateOptions{Events: []reprise.Event{e}}, key, config)
		if errors.Is(err, errors.ErrUnsupported) {
			s, _, err = n.log.Create(ctx, key, config)
		}
		if created && err == nil {
			return s, nil
		}
	}
	if err == nil {
		_, err = s.Append(ctx, e)
	}
	return s, err
}

// tidy removes records at the beginning of a stream: those whose time is past, and those above a bound. It does nothing
// most times, so that its cost is spread. What fails is done the next time.
func (n *names) tidy(ctx context.Context, s *reprise.Stream, most int64) {
	info, err := s.Info(ctx)
	over := int64(info.Kept()) - most
	if err != nil || over <= 0 && info.Tail%ranTidy != 0 {
		return
	}
	from := info.Earliest
	if over > 0 {
		from += uint64(over + min(most/16, ranTidy))
		n.tellForgotten(ctx, s, from-1)
	}
	for past := true; past && from < info.Tail; {
		step := from + ranTidy - 1
		err := eachRecord(ctx, s, from, min(step, info.Tail-1), func(e *reprise.Event) {
			if past = past && n.isPast(e); past {
				from = e.Seq + 1
			}
		})
		past = past && err == nil && from > step
	}
	if from > info.Earliest {
		if err := s.Trim(ctx, from); err != nil && !isOver(err) {
			n.opts.Logger.Info("old names of executions could not be forgotten", "stream", s.Key().Name, "error", err)
		}
	}
}

// tellForgotten warns if the record with a seq is about to be forgotten before its time, once in a while.
func (n *names) tellForgotten(ctx context.Context, s *reprise.Stream, seq uint64) {
	early := false
	err := eachRecord(ctx, s, seq, seq, func(e *reprise.Event) { early = !n.isPast(e) })
	if err != nil || !early {
		return
	}
	n.mu.Lock()
	due := n.told.IsZero() || time.Since(n.told) >= ranToldEvery
	if due {
		n.told = time.Now()
	}
	n.mu.Unlock()
	if due {
		n.opts.Logger.Warn("names of executions are forgotten before their time, and could run again: there are too many; "+
			"raise --remember-names",
			"stream", s.Key().Name, "remember", n.opts.Remember, "names", n.opts.RememberNames)
	}
}
