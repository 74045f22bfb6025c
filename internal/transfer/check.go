package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"reprise"
)

// CheckOptions are the settings of Check. The zero value of each field means its default.
type CheckOptions struct {
	// Opaque says that batches are compressed, encrypted or otherwise not as a Log
	// has made them, so that what is in them cannot be checked. Default: they are looked into.
	Opaque bool
	// Parallel is how many streams are read at a time. Default: 8.
	Parallel int
	// PageBytes is how much of a stream is read at a time. Default: 1 MiB.
	PageBytes int
	// Progress, if it is not nil, is told after each stream what was checked so far, by one goroutine at a time.
	Progress func(Checked)
}

func (o *CheckOptions) withDefaults() CheckOptions {
	var d CheckOptions
	if o != nil {
		d = *o
	}
	if d.Parallel < 1 {
		d.Parallel = 8
	}
	if d.PageBytes < 1 {
		d.PageBytes = 1 << 20
	}
	return d
}

// Problem is one thing that is wrong.
type Problem struct {
	// Key is the stream, zero where the store as a whole is meant.
	Key reprise.StreamKey
	// What is a sentence without a full stop.
	What string
}

func (p Problem) String() string {
	if p.Key == (reprise.StreamKey{}) {
		return p.What
	}
	return fmt.Sprintf("stream %s: %s", p.Key, p.What)
}

// Checked says what a check has read.
type Checked struct {
	Streams  int64 `json:"streams"`
	Events   int64 `json:"events"`
	Bytes    int64 `json:"bytes"`
	Problems int64 `json:"problems"`
}

// checker is a Store that can check itself, below what its contract shows: a sentence for
// each thing that is wrong.
type checker interface {
	Check(ctx context.Context) (wrong []string, err error)
}

// Check reads every stream of the store whole and calls report, one call at a time, for all that is
// wrong: batches with a hole between them or that do not reach the tail, records that cannot be
// decoded or are not as many as the batch says, an end that is not the last event, is there twice or is
// another than StreamInfo.End, a window, sizes or producers that cannot be. What a Store finds by a method
// Check(ctx) (wrong []string, err error) of its own, or of a Store that it is wrapped around
// (found by a method Unwrap() reprise.Store), is reported too, first; a stream may then
// be reported twice.
//
// A stream that is damaged does not keep others from being read. Appends may go on meanwhile. The
// error is that of a store that is unavailable or the cause of a cancelled
// context; what is wrong is no error. opts may be nil.
func Check(ctx context.Context, store reprise.Store, opts *CheckOptions, report func(Problem)) (Checked, error) {
	c := &check{store: store, opts: opts.withDefaults(), report: report}
	if err := c.own(ctx, store); err != nil {
		return c.checked(), fmt.Errorf("check: %w", err)
	}
	q := reprise.ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := store.List(ctx, q)
		if err == nil {
			err = c.all(ctx, page.Streams)
		}
		if err != nil {
			return c.checked(), fmt.Errorf("check: %w", err)
		}
		if q.After = page.Next; q.After == "" {
			return c.checked(), nil
		}
	}
}

// check is one run of Check.
type check struct {
	store reprise.Store
	opts  CheckOptions

	streams, events, bytes atomic.Int64

	mu       sync.Mutex // held while report is called
	report   func(Problem)
	problems int64
}

func (c *check) checked() Checked {
	return Checked{Streams: c.streams.Load(), Events: c.events.Load(), Bytes: c.bytes.Load(), Problems: c.problems}
}

func (c *check) wrong(key reprise.StreamKey, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems++
	c.report(Problem{key, fmt.Sprintf(format, args...)})
}

// own runs the check of the store itself, and of those inside.
func (c *check) own(ctx context.Context, store reprise.Store) error {
	for store != nil {
		if s, ok := store.(checker); ok {
			wrong, err := s.Check(ctx)
			for _, sentence := range wrong {
				c.wrong(reprise.StreamKey{}, "%s", sentence)
			}
			if err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return err
			}
		}
		outer, ok := store.(interface{ Unwrap() reprise.Store })
		if !ok {
			return nil
		}
		store = outer.Unwrap()
	}
	return nil
}

// all checks the streams of a page of the list.
func (c *check) all(ctx context.Context, infos []reprise.StreamInfo) error {
	jobs := make(chan reprise.StreamKey, len(infos))
	for i := range infos {
		if !infos[i].Key.IsMarker() {
			jobs <- infos[i].Key
		}
	}
	close(jobs)
	errs := make([]error, min(c.opts.Parallel, len(infos)))
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for key := range jobs {
				if errs[i] = c.stream(ctx, key); errs[i] != nil {
					return
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// progress tells what was checked so far.
func (c *check) progress() {
	if c.opts.Progress == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Progress(c.checked())
}

// stream checks one stream. The error is for a store that does not answer.
func (c *check) stream(ctx context.Context, key reprise.StreamKey) error {
	s := &streamCheck{check: c, key: key}
	for first := true; ; first = false {
		page, err := c.store.Read(ctx, key, s.after, c.opts.PageBytes)
		switch {
		case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
			return nil // removed meanwhile
		case errors.Is(err, reprise.ErrUnavailable), errors.Is(err, reprise.ErrClosed), err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			c.wrong(key, "after event %d: %v", s.after, err)
			return nil
		case first:
			s.first = page.Info
			c.streams.Add(1)
		case page.Info.Epoch != s.first.Epoch:
			return nil // removed and made again
		}
		if !s.page(&page) {
			s.finish(&page.Info)
			c.progress()
			return nil
		}
	}
}
