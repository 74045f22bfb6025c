package storewrap

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"reprise"
	"reprise/internal/wrap"
)

// TransformFunc receives an event and may change its Type, Data and Format; changes of Seq and Time are ignored. It
// returns false to drop the event. Data is shared: the function may replace it but must not write to it. The function
// must return the same result for the same event each time, and be safe for concurrent use.
type TransformFunc func(key reprise.StreamKey, e *reprise.Event) (keep bool)

// TypeRemoved is the type of the event that replaces a dropped event.
const TypeRemoved = "removed"

// TransformOptions are the functions of Transform. At least one of them must be set.
type TransformOptions struct {
	// Append is called for each event before it is stored, for example to keep secrets out of the Store. Data that it
	// removes reaches no Store.
	Append TransformFunc
	// Read is called for each event that is read, for example to show only a part of the stored data.
	Read TransformFunc
}

// transformed is a Store whose events are changed or dropped when they are appended or read. It is safe for concurrent
// use.
type transformed struct {
	wrap.Around
	opts  TransformOptions
	pages wrap.Pager
}

// Transform changes or drops events when they are appended to inner or read from it.
//
// Seqs have no gaps, so a dropped event is replaced by one of the type TypeRemoved, with the same seq and time and
// without data. The end event remains the end event: if it is dropped it only loses its data. End.Data is transformed
// like the data of an end event, of FormatMembers if it is an object in braces and of FormatBytes otherwise. The kept
// bytes remain those that the Log has counted.
//
// A Log serves the newest events to its own readers from memory, as they were appended. Neither function sees those
// reads. The functions therefore serve stored data, other replicas and later readers. Data that nobody may see must be
// removed before it is appended to the Log.
//
// A batch that cannot be decoded, or that a function has made invalid, is an error. An append returns an error that
// wraps reprise.ErrInvalid; a read returns an error that names the stream and the seq.
//
// The error of Transform wraps reprise.ErrInvalid if there is no function.
func Transform(inner reprise.Store, opts TransformOptions) (reprise.Store, error) {
	if err := wrap.Place(wrap.Transforms, inner); err != nil {
		return nil, err
	}
	if opts.Append == nil && opts.Read == nil {
		return nil, fmt.Errorf("%w: Transform without a function", reprise.ErrInvalid)
	}
	t := &transformed{Around: wrap.Around{Inner: inner}, opts: opts}
	t.pages.Init(inner, 1)
	return t, nil
}

func (t *transformed) Layer() wrap.Layer { return wrap.Transforms }

// Create creates a stream; see reprise.Store.
func (t *transformed) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if t.opts.Append != nil {
		info.End = changedEnd(t.opts.Append, info.Key, info.Tail, info.End)
	}
	kept, err := t.Inner.Create(ctx, info)
	return t.shown(kept), err
}

// CreateAppend creates a stream with its first batch; see reprise.CreateAppender.
func (t *transformed) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	first, err := t.changed(first)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	kept, err := t.Around.CreateAppend(ctx, info, first)
	return t.shown(kept), err
}

// changed returns the stored form of a request.
func (t *transformed) changed(req reprise.AppendRequest) (reprise.AppendRequest, error) {
	if t.opts.Append == nil {
		return req, nil
	}
	changed, err := changedBatch(t.opts.Append, req.Key,
		reprise.Batch{First: req.First, Count: req.Count, Bytes: req.Bytes})
	if err != nil {
		return req, fmt.Errorf("%w: transform: %v", reprise.ErrInvalid, err)
	}
	req.Bytes = changed
	req.End = changedEnd(t.opts.Append, req.Key, req.First+uint64(req.Count)-1, req.End)
	return req, nil
}

// Append stores batches; see reprise.Store.
func (t *transformed) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if t.opts.Append == nil {
		return t.Inner.Append(ctx, reqs)
	}
	errs := make([]error, len(reqs))
	good := make([]reprise.AppendRequest, 0, len(reqs))
	places := make([]int, 0, len(reqs))
	for i, req := range reqs {
		if req, errs[i] = t.changed(req); errs[i] != nil {
			continue
		}
		good, places = append(good, req), append(places, i)
	}
	inside := t.Inner.Append(ctx, good)
	if inside == nil && len(good) == len(reqs) {
		return nil
	}
	for n, err := range inside {
		errs[places[n]] = err
	}
	return errs
}

// Read returns a page; see reprise.Store. maxBytes counts the bytes of the batches as they are returned.
func (t *transformed) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (reprise.Page, error) {
	if t.opts.Read == nil {
		return t.Inner.Read(ctx, key, after, maxBytes)
	}
	page, err := t.pages.Read(ctx, key, after, maxBytes, func(_ *reprise.StreamInfo, b reprise.Batch) ([]byte, error) {
		return changedBatch(t.opts.Read, key, b)
	})
	page.Info = t.shown(page.Info)
	return page, err
}

// List returns streams; see reprise.Store.
func (t *transformed) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	page, err := t.Inner.List(ctx, q)
	page.Streams = t.shownAll(page.Streams)
	return page, err
}

// Sweep removes expired streams; see reprise.Sweeper.
func (t *transformed) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	swept, err := t.Around.Sweep(ctx, now, remember, limit)
	return t.shownAll(swept), err
}

func (t *transformed) shownAll(streams []reprise.StreamInfo) []reprise.StreamInfo {
	streams = slices.Clone(streams)
	for i := range streams {
		streams[i] = t.shown(streams[i])
	}
	return streams
}

// shown returns info as readers see it.
func (t *transformed) shown(info reprise.StreamInfo) reprise.StreamInfo {
	if t.opts.Read != nil {
		info.End = changedEnd(t.opts.Read, info.Key, info.Tail, info.End)
	}
	return info
}

// changedBatch returns the bytes of b after f: b.Bytes itself if f changes nothing.
func changedBatch(f TransformFunc, key reprise.StreamKey, b reprise.Batch) ([]byte, error) {
	out := make([]byte, 0, len(b.Bytes)+64)
	for e, err := range reprise.Records(b) {
		if err != nil {
			return nil, err
		}
		changed := changedEvent(f, key, e)
		if out, err = reprise.AppendRecord(out, &changed); err != nil {
			return nil, fmt.Errorf("event %d after its transformation: %w", e.Seq, err)
		}
	}
	if bytes.Equal(out, b.Bytes) {
		return b.Bytes, nil
	}
	return out, nil
}

// changedEvent returns e after f.
func changedEvent(f TransformFunc, key reprise.StreamKey, e reprise.Event) reprise.Event {
	changed := e
	if !f(key, &changed) {
		changed = reprise.Event{Type: TypeRemoved}
	}
	changed.Seq, changed.Time = e.Seq, e.Time
	if e.Type == reprise.TypeEnd || changed.Type == reprise.TypeEnd {
		changed.Type = e.Type // there is one end, and it is the last event
	}
	return changed
}

// changedEnd returns the End that belongs to the end event after f.
func changedEnd(f TransformFunc, key reprise.StreamKey, last uint64, end *reprise.End) *reprise.End {
	if end == nil {
		return nil
	}
	e := reprise.Event{Seq: last, Time: end.Time, Type: reprise.TypeEnd, Data: end.Data}
	if n := len(e.Data); n >= 2 && e.Data[0] == '{' && e.Data[n-1] == '}' {
		e.Format = reprise.FormatMembers
	}
	changed := *end
	changed.Data = changedEvent(f, key, e).Data
	return &changed
}
