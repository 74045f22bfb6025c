package storewrap

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"reprise"
)

// TransformFunc looks at an event and may change its Type, Data and Format; changes of Seq and Time are ignored. It
// returns false to drop the event. Data must be replaced and not be written to: it is shared. The function must give
// the same result for the same event each time, and be safe for concurrent use.
type TransformFunc func(key reprise.StreamKey, e *reprise.Event) (keep bool)

// TypeRemoved is the type of the event that stands in the place of one that was dropped.
const TypeRemoved = "removed"

// TransformOptions say what is transformed. At least one of them must be set.
type TransformOptions struct {
	// Append is called for each event that is stored, for example to keep secrets out of the Store. What it
	// takes away is in no Store.
	Append TransformFunc
	// Read is called for each event that is read, for example to show less of a Store than is in it.
	Read TransformFunc
}

// Transformed is a Store whose events are changed or dropped on their way. It is safe for concurrent use.
type Transformed struct {
	around
	opts  TransformOptions
	pages pager
}

// Transform changes or drops events on their way into inner or out of it.
//
// Seqs have no holes, so an event that is dropped leaves one of the type TypeRemoved, without data, with its seq
// and time. The end event stays one: if it is dropped it loses its data. End.Data is transformed as the data of an
// end event of FormatMembers if it is an object in braces, and of FormatBytes if not. What is counted as kept stays
// what the Log has counted.
//
// A Log gives its own readers the newest events from its memory, as they were appended: neither function sees
// those. So the two are for what is at rest, for other replicas and for later readers; what nobody
// is to see must be taken out before it is appended to the Log.
//
// A batch that holds no events that can be decoded, or that a function has made invalid, is refused with an
// error that wraps reprise.ErrInvalid at an append, and is an error that names the stream and the seq at a read.
//
// The error of Transform wraps reprise.ErrInvalid: no function.
func Transform(inner reprise.Store, opts TransformOptions) (*Transformed, error) {
	if err := place(transforms, inner); err != nil {
		return nil, err
	}
	if opts.Append == nil && opts.Read == nil {
		return nil, fmt.Errorf("%w: Transform without a function", reprise.ErrInvalid)
	}
	t := &Transformed{around: around{inner}, opts: opts}
	t.pages.init(inner, 1)
	return t, nil
}

func (t *Transformed) layer() layer { return transforms }

// Create makes a stream; see reprise.Store.
func (t *Transformed) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if t.opts.Append != nil {
		info.End = changedEnd(t.opts.Append, info.Key, info.Tail, info.End)
	}
	kept, err := t.inner.Create(ctx, info)
	return t.shown(kept), err
}

// CreateAppend makes a stream with its first batch; see reprise.CreateAppender.
func (t *Transformed) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	first, err := t.changed(first)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	kept, err := t.around.CreateAppend(ctx, info, first)
	return t.shown(kept), err
}

// changed is a request as it is stored.
func (t *Transformed) changed(req reprise.AppendRequest) (reprise.AppendRequest, error) {
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
func (t *Transformed) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if t.opts.Append == nil {
		return t.inner.Append(ctx, reqs)
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
	inside := t.inner.Append(ctx, good)
	if inside == nil && len(good) == len(reqs) {
		return nil
	}
	for n, err := range inside {
		errs[places[n]] = err
	}
	return errs
}

// Read returns a page; see reprise.Store. maxBytes counts the bytes of the batches as they are returned.
func (t *Transformed) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (reprise.Page, error) {
	if t.opts.Read == nil {
		return t.inner.Read(ctx, key, after, maxBytes)
	}
	page, err := t.pages.read(ctx, key, after, maxBytes, func(_ *reprise.StreamInfo, b reprise.Batch) ([]byte, error) {
		return changedBatch(t.opts.Read, key, b)
	})
	page.Info = t.shown(page.Info)
	return page, err
}

// List returns streams; see reprise.Store.
func (t *Transformed) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	page, err := t.inner.List(ctx, q)
	page.Streams = t.shownAll(page.Streams)
	return page, err
}

// Sweep removes expired streams; see reprise.Sweeper.
func (t *Transformed) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	swept, err := t.around.Sweep(ctx, now, remember, limit)
	return t.shownAll(swept), err
}

func (t *Transformed) shownAll(streams []reprise.StreamInfo) []reprise.StreamInfo {
	streams = slices.Clone(streams)
	for i := range streams {
		streams[i] = t.shown(streams[i])
	}
	return streams
}

// shown is info as it is read.
func (t *Transformed) shown(info reprise.StreamInfo) reprise.StreamInfo {
	if t.opts.Read != nil {
		info.End = changedEnd(t.opts.Read, info.Key, info.Tail, info.End)
	}
	return info
}

// changedBatch is a batch as f leaves it: b.Bytes themselves if it changes nothing.
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

// changedEvent is e as f leaves it.
func changedEvent(f TransformFunc, key reprise.StreamKey, e reprise.Event) reprise.Event {
	changed := e
	if !f(key, &changed) {
		changed = reprise.Event{Type: TypeRemoved}
	}
	changed.Seq, changed.Time = e.Seq, e.Time
	if e.Type == reprise.TypeEnd || changed.Type == reprise.TypeEnd {
		changed.Type = e.Type // there is one end, and it is the last
	}
	return changed
}

// changedEnd is what End says of the end event as f leaves it.
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
