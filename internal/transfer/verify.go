package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reprise"
)

// errDiffers means that source and copy differ. It wraps no error that may pass.
var errDiffers = errors.New("the copy differs from the source")

// verify reads copy and source again and compares them up to the last copied event, batch by batch and byte by byte.
func (s *source) verify(ctx context.Context) error {
	copy, source := &walk{store: s.to, s: s, target: true}, &walk{store: s.from, s: s}
	if err := copy.begin(ctx, 0); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if err := source.begin(ctx, copy.info.Earliest-1); err != nil {
		return err
	}
	switch {
	case source.info.Tail > s.after:
		s.out |= moving
	case compareInfo(&source.info, &s.info) != nil: // trimmed, for example
		return errAgain
	default:
		if err := compareInfo(&copy.info, &source.info); err != nil {
			return err
		}
	}
	for {
		got, want, err := nextPair(ctx, copy, source)
		if err != nil || got == nil {
			return err
		}
		if got.First != want.First || got.Count != want.Count || !bytes.Equal(got.Bytes, want.Bytes) {
			return fmt.Errorf("%w: the batch of events %d to %d", errDiffers, want.First, want.Last())
		}
	}
}

// nextPair returns the next batch of the copy and the batch of the source to compare it with. It skips batches that
// only one of them has trimmed. got is nil at the end of the copy.
func nextPair(ctx context.Context, copy, source *walk) (got, want *reprise.Batch, err error) {
	if got, err = copy.next(ctx); err != nil || got == nil {
		return nil, nil, err
	}
	want, err = source.next(ctx)
	for err == nil && want != nil && want.Last() < got.First { // trimmed only in the copy
		want, err = source.next(ctx)
	}
	for err == nil && got != nil && (want == nil || got.Last() < want.First) { // trimmed only in the source
		if got.Last() >= source.info.Earliest {
			err = fmt.Errorf("%w: events %d to %d are missing in the source", errDiffers, got.First, got.Last())
			return nil, nil, err
		}
		got, err = copy.next(ctx)
	}
	return got, want, err
}

// walk reads the batches of one side up to the last copied event.
type walk struct {
	store   reprise.Store
	s       *source
	target  bool
	info    reprise.StreamInfo
	after   uint64
	batches []reprise.Batch
}

func (w *walk) begin(ctx context.Context, after uint64) error {
	w.after = after
	return w.page(ctx)
}

// page reads the next batches.
func (w *walk) page(ctx context.Context) error {
	page, err := w.store.Read(ctx, w.s.key, w.after, w.s.opts.PageBytes)
	switch {
	case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
		if w.target {
			return fmt.Errorf("%w: it is not there any more", errDiffers)
		}
		return errGone
	case err != nil:
		return err
	case page.Info.Epoch != w.s.info.Epoch:
		return errors.Join(errAgain, w.s.discard(ctx))
	}
	w.info, w.batches = page.Info, page.Batches
	return nil
}

// next returns the next batch, nil after the last copied one.
func (w *walk) next(ctx context.Context) (*reprise.Batch, error) {
	if w.after >= w.s.after {
		return nil, nil
	}
	if len(w.batches) == 0 {
		if err := w.page(ctx); err != nil {
			return nil, err
		}
		if len(w.batches) == 0 && max(w.after+1, w.info.Earliest) <= w.s.after {
			return nil, fmt.Errorf("%w: events %d to %d cannot be read", errDiffers, w.after+1, w.s.after)
		}
		if len(w.batches) == 0 {
			return nil, nil
		}
	}
	b := &w.batches[0]
	w.batches = w.batches[1:]
	if b.First > max(w.after+1, w.info.Earliest) {
		return nil, fmt.Errorf("%w: events %d to %d cannot be read", errDiffers, w.after+1, b.First-1)
	}
	w.after = b.Last()
	if b.First > w.s.after {
		return nil, nil
	}
	return b, nil
}

// compareInfo compares the states of a stream that does not change. Times are compared to the microsecond, the
// precision that every store keeps.
func compareInfo(got, want *reprise.StreamInfo) error {
	differ := func(what string, got, want any) error {
		return fmt.Errorf("%w: %s is %v and should be %v", errDiffers, what, got, want)
	}
	switch {
	case !got.Config.Equal(want.Config):
		return differ("the configuration", "another", "the same")
	case !sameTime(got.Created, want.Created):
		return differ("the time of creation", got.Created, want.Created)
	case got.Owner != want.Owner:
		return differ("the owner", got.Owner, want.Owner)
	case got.Tail != want.Tail:
		return differ("the tail", got.Tail, want.Tail)
	case got.Earliest != want.Earliest:
		return differ("the earliest event", got.Earliest, want.Earliest)
	case got.Bytes != want.Bytes:
		return differ("the number of bytes", got.Bytes, want.Bytes)
	case !sameEnd(got.End, want.End):
		return differ("the end", got.End, want.End)
	case !slices.Equal(got.Producers, want.Producers):
		return differ("the list of producers", got.Producers, want.Producers)
	case !slices.Equal(got.Lineage, want.Lineage):
		return differ("the lineage", got.Lineage, want.Lineage)
	}
	return nil
}

func sameTime(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

func sameEnd(a, b *reprise.End) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Outcome == b.Outcome && sameTime(a.Time, b.Time) && sameTime(a.Expires, b.Expires) &&
		bytes.Equal(a.Data, b.Data)
}
