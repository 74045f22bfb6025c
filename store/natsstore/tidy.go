package natsstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"reprise"
)

// tidy removes unneeded data from the server in the background. A job may be lost: it is then repeated at the next
// occasion or does no harm.
type tidy struct {
	s      *Store
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{} // has room for one

	mu    sync.Mutex
	trims map[reprise.StreamKey]struct{}
	jobs  []func(ctx context.Context) error
	ended bool
}

const (
	// Data before the window is purged when its size reaches this fraction of the window, and at least this many bytes.
	purgePart  = 8
	leastPurge = 256 << 10
	// maxJobs bounds the queue; further jobs are dropped.
	maxJobs = 100_000
	// lastJobs is how long Close waits for the remaining jobs.
	lastJobs = time.Second
)

func (t *tidy) start(s *Store) {
	ctx, cancel := context.WithCancel(context.Background())
	t.s, t.cancel, t.done, t.wake = s, cancel, make(chan struct{}), make(chan struct{}, 1)
	t.trims = map[reprise.StreamKey]struct{}{}
	go t.run(ctx)
}

// stop ends the loop after it has had a moment to run the remaining jobs.
func (t *tidy) stop() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.signal()
	timer := time.AfterFunc(lastJobs, t.cancel)
	<-t.done
	timer.Stop()
	t.cancel()
}

func (t *tidy) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *tidy) run(ctx context.Context) {
	defer close(t.done)
	for {
		t.mu.Lock()
		jobs, trims, ended := t.jobs, t.trims, t.ended
		t.jobs, t.trims = nil, map[reprise.StreamKey]struct{}{}
		t.mu.Unlock()
		for key := range trims {
			jobs = append(jobs, func(ctx context.Context) error { return t.purgeOld(ctx, key) })
		}
		if len(jobs) == 0 {
			if ended {
				return
			}
			select {
			case <-t.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		parallel(len(jobs), func(i int) {
			ctx, cancel := withTimeout(ctx, t.s.timeout)
			defer cancel()
			if ctx.Err() != nil {
				return
			}
			if err := jobs[i](ctx); err != nil && ctx.Err() == nil {
				t.s.logger.Debug("tidying up", "error", err)
			}
		})
		if ctx.Err() != nil {
			return
		}
	}
}

func (t *tidy) add(job func(ctx context.Context) error) {
	t.mu.Lock()
	if len(t.jobs) < maxJobs {
		t.jobs = append(t.jobs, job)
	}
	t.mu.Unlock()
	t.signal()
}

// trim purges the data before the window of a stream.
func (t *tidy) trim(key reprise.StreamKey) {
	t.mu.Lock()
	if len(t.trims) < maxJobs {
		t.trims[key] = struct{}{}
	}
	t.mu.Unlock()
	t.signal()
}

// delete deletes a message. server is the one that has given it its sequence; see change.
func (t *tidy) delete(server, stream string, seq uint64) {
	t.add(func(ctx context.Context) error { return t.s.deleteMessage(ctx, server, stream, seq) })
}

func (s *Store) deleteMessage(ctx context.Context, server, stream string, seq uint64) error {
	return s.change(ctx, server, "STREAM.MSG.DELETE."+stream, map[string]any{"seq": seq, "no_erase": true})
}

// deleteRecord deletes the records of a stream whose state was st from the index. If the index has lost one, its
// sequence may be that of another stream's record, also of one of the same name that was created since, which stays.
func (t *tidy) deleteRecord(server string, key reprise.StreamKey, st *state) {
	t.deleteRecordAt(server, key, st, st.index)
	if st.config > 0 {
		t.deleteRecordAt(server, key, st, st.config)
	}
}

func (t *tidy) deleteRecordAt(server string, key reprise.StreamKey, st *state, seq uint64) {
	t.add(func(ctx context.Context) error {
		var answer stored
		err := t.s.request(ctx, "STREAM.MSG.GET."+t.s.index, &getRequest{Seq: seq}, &answer)
		if err != nil || answer.Message.Subject != t.s.subjects.index(key) {
			return err
		}
		if r, err := decodeRecord(key, answer.Message.Data); err != nil || !r.fits(key, st) {
			return err
		}
		return t.s.deleteMessage(ctx, server, t.s.index, seq)
	})
}

// purge deletes the parts and data that a removed stream has left.
func (t *tidy) purge(server string, key reprise.StreamKey, before uint64) {
	t.add(func(ctx context.Context) error {
		return errors.Join(t.purgeSubject(ctx, server, t.s.subjects.parts(key), before),
			t.purgeSubject(ctx, server, t.s.subjects.data(key), before))
	})
}

// purgeBoots deletes all but the newest messages about starts; see boot.
func (t *tidy) purgeBoots(server string) {
	t.add(func(ctx context.Context) error {
		req := map[string]any{"filter": t.s.subjects.boot(), "keep": keptBoots}
		return t.s.change(ctx, server, "STREAM.PURGE."+t.s.name, req)
	})
}

// dropConsumer deletes a consumer of a JetStream stream.
func (t *tidy) dropConsumer(stream, name string) {
	t.add(func(ctx context.Context) error {
		return t.s.change(ctx, "", "CONSUMER.DELETE."+stream+"."+name, nil)
	})
}

// purgeSubject deletes the messages of a subject with a sequence below before, which server has given.
func (t *tidy) purgeSubject(ctx context.Context, server, subject string, before uint64) error {
	return t.s.change(ctx, server, "STREAM.PURGE."+t.s.name, map[string]any{"filter": subject, "seq": before})
}

// purgeOld deletes the data before the current window of a stream. The newest message, which is its state, stays, and
// so does the batch before it: a loss of power may take the newest message and not the purge, and a stream without any
// message would be gone.
func (t *tidy) purgeOld(ctx context.Context, key reprise.StreamKey) error {
	s := t.s
	server := s.server()
	last, err := s.last(ctx, key)
	if err != nil || last == nil || last.gone {
		return err
	}
	before := last.seq
	switch {
	case last.earliest <= last.tail && (last.count == 0 || last.first > last.earliest):
		if before, err = s.locate(ctx, key, last, last.earliest); err != nil {
			return err
		}
	case len(last.skips) > 0:
		before = last.skips[0].seq
	}
	err = t.purgeSubject(ctx, server, s.subjects.stream(key), before)
	if !last.bulky {
		return err
	}
	// Parts of a batch precede it and follow the previous batch.
	first, failed := s.next(ctx, key, before)
	if failed != nil {
		return errors.Join(err, failed)
	}
	partsBefore := before
	for _, e := range []*entry{first, last} {
		if len(e.parts) > 0 {
			partsBefore = min(partsBefore, e.parts[0].seq)
		}
	}
	return errors.Join(err, t.purgeSubject(ctx, server, s.subjects.parts(key), partsBefore))
}
