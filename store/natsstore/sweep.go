package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reprise"
)

// Sweep removes expired streams; see reprise.Sweeper. It takes one request for the minutes in which streams expire, and
// a few requests for each stream that expires. The server deletes marks itself.
func (s *Store) Sweep(ctx context.Context, now, remember time.Time, limit int) (_ []reprise.StreamInfo, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	minutes, err := s.dueMinutes(ctx, now)
	if err != nil {
		return nil, err
	}
	w := &sweep{s: s, now: now, remember: remember, limit: limit}
	for _, minute := range minutes {
		if len(w.swept) >= limit {
			break
		}
		if err := w.minute(ctx, minute); err != nil {
			return w.swept, err
		}
	}
	return w.swept, nil
}

// dueMinutes returns the minutes up to now in which streams expire, earliest first.
func (s *Store) dueMinutes(ctx context.Context, now time.Time) ([]int64, error) {
	info, err := s.streamInfo(ctx, s.index, s.subjects.minutes())
	if err != nil {
		return nil, err
	}
	var due []int64
	for subject := range info.State.Subjects {
		n, err := s.subjects.minuteIn(subject)
		if err != nil {
			return nil, err
		}
		if n <= minuteOf(now) {
			due = append(due, n)
		}
	}
	slices.Sort(due)
	return due, nil
}

// sweep is one call of Sweep.
type sweep struct {
	s             *Store
	server        string // that the sequences are of
	now, remember time.Time
	limit         int
	swept         []reprise.StreamInfo
}

// minute sweeps the streams of a minute.
func (w *sweep) minute(ctx context.Context, minute int64) error {
	const chunk = 500
	filter := w.s.subjects.minute(time.Unix(minute*60, 0))
	for from := uint64(1); len(w.swept) < w.limit; {
		w.server = w.s.server()
		notes, err := w.s.find(ctx, filter, from, 1<<63, chunk)
		if err != nil || len(notes) == 0 {
			return err
		}
		from = notes[len(notes)-1].seq + 1
		for len(notes) > 0 && len(w.swept) < w.limit {
			n := min(len(notes), parallelism, w.limit-len(w.swept))
			if err := w.some(ctx, notes[:n]); err != nil {
				return err
			}
			notes = notes[n:]
		}
	}
	return nil
}

// some sweeps the streams of a few notes.
func (w *sweep) some(ctx context.Context, notes []indexed) error {
	infos, errs := make([]*reprise.StreamInfo, len(notes)), make([]error, len(notes))
	parallel(len(notes), func(i int) { infos[i], errs[i] = w.one(ctx, &notes[i]) })
	for _, info := range infos {
		if info != nil {
			w.swept = append(w.swept, *info)
		}
	}
	return errors.Join(errs...)
}

// one sweeps the stream of a note if it has expired. If another replica is first, it does nothing.
func (w *sweep) one(ctx context.Context, note *indexed) (*reprise.StreamInfo, error) {
	e, err := decodeEnding(note.body)
	if err != nil {
		w.s.leaveOut(fmt.Errorf("note %d: %w", note.seq, err))
		return nil, nil
	}
	if e.expires > w.now.UnixMilli() {
		return nil, nil
	}
	last, err := w.s.last(ctx, e.key)
	if isDamage(err) {
		w.s.leaveOut(err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch {
	case last == nil || last.gone || last.epoch != e.epoch && !last.renewed || last.end == nil && w.stale(note) ||
		last.end != nil && last.end.Expires.UnixMilli() != e.expires:
		if w.stale(note) {
			w.s.tidy.delete(w.server, w.s.index, note.seq)
		}
		return nil, nil
	case last.end == nil:
		return nil, nil // the end may be in transit
	}
	info, err := w.s.info(ctx, e.key, last.state)
	lost := err
	switch {
	case errors.Is(err, errGone), errors.Is(err, errForeign): // the index has lost the record
		info = last.info(e.key, reprise.StreamConfig{})
	case isDamage(err):
		w.s.leaveOut(err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	err = w.s.bury(ctx, w.server, e.key, last, w.remember)
	if errors.Is(err, errWrongLast) {
		return nil, nil // another replica was first, or the stream was trimmed and the next Sweep removes it
	}
	if err != nil {
		return nil, err
	}
	if lost != nil {
		w.s.logger.Error("an expired stream was swept without its configuration, which is lost", "error", lost)
	}
	w.s.tidy.delete(w.server, w.s.index, note.seq)
	info.Producers = nil
	return &info, nil
}

// stale reports whether a note is older than the longest append that may have written it.
func (w *sweep) stale(note *indexed) bool { return time.Since(note.at) > orphanAge }
