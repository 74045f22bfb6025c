package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"

	"reprise"
	"reprise/internal/archive"
)

// Place is an archive.Place that a helper serves.
type Place struct{ *Helper }

// Create makes or replaces a file; see archive.Place.
func (p Place) Create(ctx context.Context, name string, write func(io.Writer) error) error {
	return p.upload(ctx, "PUT", "/file", nameQuery("name", name), write)
}

// Open opens a file; see archive.Place. After the helper was started again, reading it fails with an error that wraps
// reprise.ErrUnavailable.
func (p Place) Open(ctx context.Context, name string) (archive.PlacedFile, error) {
	body, err := p.do(ctx, "POST", "/open", nameQuery("name", name), nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	f := &file{helper: p.Helper, ctx: ctx}
	if err := json.NewDecoder(body).Decode(&f.opened); err != nil {
		return nil, p.lost(ctx, err)
	}
	return f, nil
}

// List yields names; see archive.Place.
func (p Place) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		inner, stop := context.WithCancelCause(ctx)
		defer stop(nil) // a list that is left early
		body, err := p.do(inner, "GET", "/list", nameQuery("prefix", prefix), nil)
		if err != nil {
			yield("", err)
			return
		}
		defer body.Close()
		for lines := json.NewDecoder(body); ; {
			var line Listed
			switch err := lines.Decode(&line); {
			case err != nil:
				yield("", p.lost(ctx, fmt.Errorf("the list was cut off: %w", err)))
				return
			case line.Error != nil && ctx.Err() != nil:
				yield("", context.Cause(ctx))
				return
			case line.Error != nil:
				yield("", line.Error.Err())
				return
			case line.End, !yield(line.Name, nil):
				return
			}
		}
	}
}

// file is an open file.
type file struct {
	helper *Helper
	ctx    context.Context // of Open
	opened Opened
}

// Size is its length in bytes.
func (f *file) Size() int64 { return f.opened.Size }

// ReadAt reads the bytes with one request.
func (f *file) ReadAt(p []byte, at int64) (int, error) {
	want := min(int64(len(p)), f.opened.Size-at)
	if at < 0 || want < 0 {
		return 0, io.EOF
	}
	if want > 0 {
		query := nameQuery("handle", f.opened.Handle, "at", strconv.FormatInt(at, 10), "len",
			strconv.FormatInt(want, 10))
		body, err := f.helper.do(f.ctx, "GET", "/read", query, nil)
		if err != nil {
			return 0, err
		}
		defer body.Close()
		if _, err := io.ReadFull(body, p[:want]); err != nil {
			return 0, f.helper.lost(f.ctx, err)
		}
	}
	if want < int64(len(p)) {
		return int(want), io.EOF
	}
	return int(want), nil
}

// Close releases the handle. A handle of a helper that has ended is released already.
func (f *file) Close() error {
	ctx := context.WithoutCancel(f.ctx)
	f.helper.mu.Lock()
	gone := f.helper.closed
	f.helper.mu.Unlock()
	if gone {
		return nil
	}
	body, err := f.helper.do(ctx, "DELETE", "/open", nameQuery("handle", f.opened.Handle), nil)
	if err != nil {
		return nil //nolint:nilerr // it was only read
	}
	return body.Close()
}

// Topic is an archive.Sink that a helper serves.
type Topic struct{ *Helper }

// Put archives one life of a stream; see archive.Sink.
func (t Topic) Put(ctx context.Context, info reprise.StreamInfo, batches iter.Seq2[reprise.Batch, error]) error {
	return t.upload(ctx, "POST", "/stream", nil, func(w io.Writer) error { return WriteStream(w, info, batches) })
}

// Has says no: a topic cannot be asked.
func (t Topic) Has(ctx context.Context, _ reprise.StreamInfo) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return false, nil
}
