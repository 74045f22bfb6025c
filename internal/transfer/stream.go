package transfer

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// outcome is the outcome of a stream. The zero outcome means that it was already present.
type outcome uint8

const (
	copied outcome = 1 << iota // made, or appended to
	moving                     // others append to it
	gone                       // removed from the source meanwhile
)

var (
	// errGone means that the stream was removed from the source.
	errGone = errors.New("the stream was removed")
	// errAgain means that the source has changed so that the copy must start again.
	errAgain = errors.New("the stream changes faster than it can be copied")
)

// restarts bounds how often the copy of a stream starts again.
const restarts = 5

// stream copies and verifies one stream.
func (c *copier) stream(ctx context.Context, key reprise.StreamKey) (out outcome, err error) {
	for range restarts {
		s := &source{copier: c, key: key}
		err = s.copy(ctx)
		if err == nil {
			err = s.verify(ctx)
		}
		if errors.Is(err, errGone) {
			return gone, s.discard(ctx)
		}
		if out |= s.out; !errors.Is(err, errAgain) {
			break
		}
	}
	return out, err
}

// source is one attempt to copy a stream.
type source struct {
	*copier
	key  reprise.StreamKey
	out  outcome
	info reprise.StreamInfo // of the last page
	kept int64              // StreamInfo.Bytes of the copy
	// revision is the one of the copy: the target counts its own changes of the configuration.
	revision uint64
	// after is the seq of the last event that is copied.
	after uint64
}

// read reads a page of the source.
func (s *source) read(ctx context.Context, after uint64) (reprise.Page, error) {
	page, err := s.from.Read(ctx, s.key, after, s.opts.PageBytes)
	switch {
	case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
		return page, errGone
	case err != nil:
		return page, fmt.Errorf("source: %w", err)
	case s.info.Epoch != "" && s.info.Epoch != page.Info.Epoch:
		return page, errors.Join(errAgain, s.discard(ctx))
	}
	s.info = page.Info
	return page, nil
}

// discard removes the copy that this attempt has created.
func (s *source) discard(ctx context.Context) error {
	if s.out&copied == 0 {
		return nil
	}
	return s.to.Remove(ctx, s.key, reprise.RemoveSpec{Epoch: s.info.Epoch})
}

// copy copies the stream until it has caught up with the source.
func (s *source) copy(ctx context.Context) error {
	page, err := s.read(ctx, 0)
	if err != nil {
		return err
	}
	have, err := s.create(ctx, &page)
	if err != nil {
		return err
	}
	if s.after > 0 && s.after >= page.Info.Earliest && s.after < page.Info.Tail { // continue an earlier copy
		if page, err = s.read(ctx, s.after); err != nil {
			return err
		}
	}
	for {
		if err := s.appendPage(&page); err != nil {
			return err
		}
		if s.after >= page.Info.Tail {
			break
		}
		if page, err = s.read(ctx, s.after); err != nil {
			return err
		}
	}
	if s.out&copied == 0 && have.Earliest < page.Info.Earliest {
		err = s.to.Remove(ctx, s.key,
			reprise.RemoveSpec{Trim: page.Info.Earliest, Kept: page.Info.Bytes, Epoch: page.Info.Epoch})
	}
	return err
}

// create creates the stream in its state before the first batch of the page, or finds the result of an earlier copy.
func (s *source) create(ctx context.Context, page *reprise.Page) (reprise.StreamInfo, error) {
	info := &page.Info
	first := info.Tail + 1
	if len(page.Batches) > 0 {
		first = page.Batches[0].First
	}
	want := reprise.StreamInfo{
		Key: s.key, Epoch: info.Epoch, Config: info.Config, Created: info.Created, Owner: info.Owner, Tail: first - 1,
		Lineage: info.Lineage,
	}
	if len(page.Batches) == 0 {
		want.End, want.Producers = info.End, info.Producers
	}
	_, err := s.to.Read(ctx, s.key, 1<<63, 0)
	missing := errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
	have, err := s.to.Create(ctx, want)
	if err != nil {
		return have, fmt.Errorf("target: %w", err)
	}
	switch {
	case have.Epoch != info.Epoch:
		return have, fmt.Errorf("%w: the target holds another life of the stream, epoch %s in place of %s; remove it there first",
			reprise.ErrConflict, have.Epoch, info.Epoch)
	case have.Tail > info.Tail, have.End != nil && info.End == nil:
		return have, fmt.Errorf("%w: the stream has gone on in the target, to %d, and is at %d in the source",
			reprise.ErrConflict, have.Tail, info.Tail)
	case have.Tail < first-1: // the next event is no longer kept
		return have, errors.Join(errAgain, s.to.Remove(ctx, s.key, reprise.RemoveSpec{Epoch: info.Epoch}))
	}
	if missing {
		s.out |= copied
	}
	s.after, s.kept, s.revision = have.Tail, have.Bytes, have.Revision
	return have, nil
}

// appendPage appends the batches of a page that are not copied yet.
func (s *source) appendPage(page *reprise.Page) error {
	if len(page.Batches) == 0 && s.after < page.Info.Tail {
		if s.after+1 < page.Info.Earliest {
			return s.beginAnew()
		}
		return fmt.Errorf("source: events %d to %d are missing", s.after+1, page.Info.Tail)
	}
	for i := range page.Batches {
		b := &page.Batches[i]
		switch {
		case b.Last() <= s.after:
			continue
		case b.First > s.after+1 && s.after+1 < page.Info.Earliest:
			return s.beginAnew()
		case b.First > s.after+1:
			return fmt.Errorf("source: events %d to %d are missing", s.after+1, b.First-1)
		case b.First <= s.after:
			return fmt.Errorf("%w: the target ends with event %d, in the middle of a batch of the source",
				reprise.ErrConflict, s.after)
		}
		if err := s.append(s.request(b, &page.Info)); err != nil {
			return fmt.Errorf("target: %w", err)
		}
		s.after = b.Last()
		s.out |= copied
	}
	return nil
}

// beginAnew removes a copy whose next event has left the window of the source: the copy would have a hole.
func (s *source) beginAnew() error {
	err := s.to.Remove(context.Background(), s.key, reprise.RemoveSpec{Epoch: s.info.Epoch})
	return errors.Join(errAgain, err)
}

// request returns the append of b. The last batch also sets the state at the tail.
func (s *source) request(b *reprise.Batch, info *reprise.StreamInfo) reprise.AppendRequest {
	s.kept += int64(len(b.Bytes))
	req := reprise.AppendRequest{
		Key: s.key, Epoch: info.Epoch, Owner: info.Owner, Revision: s.revision, First: b.First, Count: b.Count,
		Bytes: b.Bytes, Earliest: min(info.Earliest, b.Last()+1),
	}
	if b.Last() == info.Tail {
		s.kept = info.Bytes
		req.End, req.Producers = info.End, info.Producers
	}
	req.Kept = s.kept
	return req
}
