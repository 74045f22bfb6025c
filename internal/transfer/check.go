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
	// Opaque means that batches are compressed, encrypted or otherwise transformed, so that their contents cannot be
	// checked. Default: the contents are checked.
	Opaque bool
	// Parallel is the number of streams read at a time. Default: 8.
	Parallel int
	// PageBytes is the number of bytes of a stream read at a time. Default: 1 MiB.
	PageBytes int
	// Progress, if not nil, is called after each stream with what was checked so far, by one goroutine at a time.
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

// Problem is a defect that Check has found.
type Problem struct {
	// Key names the stream. It is zero if the defect concerns the store as a whole.
	Key reprise.StreamKey
	// What describes the defect: a sentence without a full stop.
	What string
}

func (p Problem) String() string {
	if p.Key == (reprise.StreamKey{}) {
		return p.What
	}
	return fmt.Sprintf("stream %s: %s", p.Key, p.What)
}

// Checked counts what a check has read.
type Checked struct {
	Streams  int64 `json:"streams"`
	Events   int64 `json:"events"`
	Bytes    int64 `json:"bytes"`
	Problems int64 `json:"problems"`
}

// checker is implemented by Stores that can check what their contract does not show. It returns one sentence for each
// defect.
type checker interface {
	Check(ctx context.Context) (wrong []string, err error)
}

// Check reads every stream of the store completely and calls report, one call at a time, for every defect: batches with
// a hole between them or that do not reach the tail; records that cannot be decoded or whose number differs from the
// batch's; an end that is not the last event, occurs twice or differs from StreamInfo.End; an impossible window, size
// or producer. If the Store has a method Check(ctx) (wrong []string, err error), its findings are reported first, and
// so are the findings of a Store that it wraps (found by a method Unwrap() reprise.Store). A stream may then be
// reported twice.
//
// A damaged stream does not prevent others from being read. Appends may continue during the check. The error comes from
// an unavailable store or is the cause of a cancelled context; defects are not errors. opts may be nil.
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

// own runs the checks of the store itself and of the stores that it wraps.
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

// progress reports what was checked so far.
func (c *check) progress() {
	if c.opts.Progress == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Progress(c.checked())
}

// stream checks one stream. The error comes from an unavailable store.
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
			return nil // removed and created again
		}
		if !s.page(&page) {
			s.finish(&page.Info)
			c.progress()
			return nil
		}
	}
}
