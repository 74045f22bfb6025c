package execution

import (
	"context"
	"errors"

	"reprise"
)

// lookUp returns a stream, and what is known of it. s is nil without an error if there is none, or it has expired.
func lookUp(ctx context.Context, log *reprise.Log, key reprise.StreamKey) (
	s *reprise.Stream, info reprise.StreamInfo, err error,
) {
	if s, err = log.Stream(ctx, key); err == nil {
		info, err = s.Info(ctx)
	}
	switch {
	case err == nil:
		return s, info, nil
	case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
		err = nil
	}
	return nil, info, err
}

// eachStream calls f with the streams of a list.
func eachStream(ctx context.Context, log *reprise.Log, q reprise.ListQuery, f func(*reprise.StreamInfo) error) error {
	q.Limit = maxLimit
	for {
		page, err := log.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			if err := f(&page.Streams[i]); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// hasExpired reports whether err refuses a position whose next event is no longer kept.
func hasExpired(err error) bool {
	w, ok := errors.AsType[*reprise.WindowError](err)
	return ok && w.Reason == reprise.CursorExpired
}

// eachBatch calls f with the kept events after a position, until f is done or there are no more. If events expire
// before they are read, lost is called, and those that are kept follow. It returns the seq of the last event that f
// had.
func eachBatch(ctx context.Context, s *reprise.Stream, at reprise.Position, lost func(),
	f func(reprise.Events) (done bool, err error),
) (last uint64, err error) {
	reader, err := s.Reader(ctx, at)
	if hasExpired(err) {
		lost()
		reader, err = s.Reader(ctx, reprise.Earliest())
	}
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for {
		events, err := reader.Poll(ctx)
		if hasExpired(err) {
			lost()
			if err := reader.Seek(reprise.Earliest()); err != nil {
				return 0, err
			}
			continue
		}
		ended := errors.Is(err, reprise.ErrEnded)
		if err != nil && !ended {
			return 0, err
		}
		done, err := f(events)
		if err != nil || done || ended || events.Len() == 0 {
			return reader.Cursor().Seq, err
		}
	}
}
