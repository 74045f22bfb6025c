package mcpstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/backoff"
)

// append appends a message to a stream that there is, or that is made now if it may be.
func (k *keeper) append(ctx context.Context, r ref, data []byte, create bool) (w *writer, seq uint64, err error) {
	ctx = context.WithoutCancel(ctx) // a client that has left is no reason to lose a message
	for {
		if create {
			w, err = k.open(ctx, r)
		} else {
			w, err = k.find(ctx, r)
		}
		if err != nil {
			if !create && mayPass(err) {
				k.giveUp(r, fmt.Errorf("a message was lost: %w", err))
			}
			return nil, 0, err
		}
		seq, err = w.append(data)
		if !errors.Is(err, errRetired) {
			return w, seq, err
		}
	}
}

// view is what can be read of a stream at one moment.
type view struct {
	stream *reprise.Stream
	stored uint64
	// pending follow the stored events, lost is the seq of the last message that was lost, 0 if there is none.
	pending [][]byte
	lost    uint64
}

func (v *view) tail() uint64 { return v.stored + uint64(len(v.pending)) }

// look returns the view of a stream.
func (k *keeper) look(ctx context.Context, r ref) (view, error) {
	if w := k.writer(r); w != nil {
		if v, err := w.look(); !errors.Is(err, errRetired) {
			return v, err
		}
	}
	s, err := k.log.Stream(ctx, k.key(r))
	if err != nil {
		return view{}, err
	}
	info, err := s.Info(ctx)
	return view{stream: s, stored: info.Tail}, err
}

func (w *writer) look() (view, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := view{stream: w.stream, stored: w.stored}
	if w.trim > 0 {
		v.lost = w.trim - 1
	}
	seq := w.stored
	for _, it := range w.pending {
		seq += it.count()
		if it.lost == 0 {
			v.pending = append(v.pending, it.data)
			continue
		}
		v.lost = seq
		v.pending = append(v.pending, make([][]byte, it.lost)...)
	}
	return v, w.gone
}

// events reads a stream after the cursor that at makes for it, up to its present tail. It tries again for a while
// where the store is unavailable. Whatever keeps it from handing out all is found before the first is handed out,
// except for a store that fails.
func (k *keeper) events(
	ctx context.Context, r ref, at func(*reprise.Stream) (reprise.Cursor, error),
	yield func(seq uint64, data []byte, s *reprise.Stream) error,
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, k.opts.MaxWait,
		fmt.Errorf("%w: it does not answer for %v", reprise.ErrUnavailable, k.opts.MaxWait))
	defer cancel()
	var v view
	err := k.patiently(ctx, func() (err error) {
		v, err = k.look(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	after, err := at(v.stream)
	if err != nil {
		return err
	}
	next := after.Seq + 1
	switch {
	case after.Seq > v.stored && after.Seq <= v.tail() && after != v.stream.Cursor(after.Seq):
		return reprise.ErrCursorForeign // the Log has not seen it, so cannot say
	case after.Seq < v.lost:
		return &reprise.WindowError{
			Reason: reprise.CursorExpired, Asked: after,
			Earliest: v.stream.Cursor(v.lost), Tail: v.stream.Cursor(v.tail()),
		}
	case after.Seq > v.tail():
		return &reprise.WindowError{Reason: reprise.CursorAhead, Asked: after, Tail: v.stream.Cursor(v.tail())}
	}
	if after.Seq <= v.stored { // else the Log would find it beyond the tail
		err := k.patiently(ctx, func() error {
			return v.readStored(ctx, after, &next, func(e reprise.Event) error {
				return yield(e.Seq, e.Data, v.stream)
			})
		})
		if err != nil {
			return err
		}
	}
	for i, data := range v.pending {
		if seq := v.stored + uint64(i) + 1; seq >= next {
			if err := yield(seq, data, v.stream); err != nil {
				return err
			}
		}
	}
	return nil
}

// yieldError wraps an error of the function that gets the events, which is never called again.
type yieldError struct{ error }

func (e yieldError) Unwrap() error { return e.error }

// readStored hands out what is stored after the cursor and up to v.stored, and moves next along.
func (v *view) readStored(
	ctx context.Context, after reprise.Cursor, next *uint64, yield func(reprise.Event) error,
) error {
	if *next > after.Seq+1 { // some were handed out before the store failed
		after = v.stream.Cursor(*next - 1)
	}
	reader, err := v.stream.Reader(ctx, reprise.After(after))
	if err != nil {
		return err
	}
	defer reader.Close()
	for *next <= v.stored {
		events, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		for e := range events.All() {
			switch {
			case e.Seq < *next:
				continue
			case e.Seq > v.stored:
				return nil
			case e.Type == typeLost:
				return &reprise.WindowError{
					Reason: reprise.CursorExpired, Asked: after,
					Earliest: v.stream.Cursor(e.Seq), Tail: v.stream.Cursor(v.tail()),
				}
			}
			if err := yield(e); err != nil {
				return yieldError{err}
			}
			*next = e.Seq + 1
		}
	}
	return nil
}

// patiently calls f again for as long as ctx lasts and the store is unavailable.
func (k *keeper) patiently(ctx context.Context, f func() error) error {
	pause := backoff.Backoff{First: flushPause, Most: flushPauseMax}
	for {
		err := f()
		if own, ok := errors.AsType[yieldError](err); ok {
			return own.error
		}
		if !errors.Is(err, reprise.ErrUnavailable) || pause.Wait(ctx) != nil {
			return err
		}
	}
}
