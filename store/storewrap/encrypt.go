package storewrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reprise"
	"reprise/internal/marker"
	"reprise/internal/wrap"
)

// encrypted is a Store whose data is encrypted in the wrapped Store. It is safe for concurrent use.
type encrypted struct {
	wrap.Around
	sealer sealer
	pages  wrap.Pager
}

// Encrypt encrypts the contents of the streams of inner with AES-256-GCM: the batches, the labels and Meta of
// the configuration, and End.Data. Encrypted data is bound to its place. A batch that was
// changed, or moved to another seq, stream, epoch or tenant, is an error that names the stream and the seq.
// So is a missing key, or a batch that was never encrypted; therefore inner must be wrapped from its first
// stream on. The same applies to the configuration, with the retention, and to the outcome and the place of the end.
//
// Not encrypted are names, tenants and epochs, times, retention, counts and sizes, the outcome, owners and the ids of
// producers. Whoever can write to inner can change times, owners and producers, remove streams, remove events from
// either end of a stream together with the record that it has ended, and restore an older state. Data that is read was
// appended at that place, but nothing proves that it is complete. A Log and its Hooks work on plain text, and keep it
// in memory.
//
// A stream that has lost events continues in another epoch, with the data that was encrypted in earlier epochs. When
// StreamInfo.Lineage drops an epoch, after more than reprise.MaxLineage losses, the data that was encrypted
// in that epoch is lost, including the configuration.
//
// Creating a stream again with an equal configuration costs a second call, because the same
// text is encrypted differently each time.
//
// The error wraps reprise.ErrInvalid if there are no keys, or for a wrapped Store that must be outside of Encrypt.
func Encrypt(inner reprise.Store, keys *reprise.Keyset) (reprise.Store, error) {
	if err := wrap.Place(wrap.Encrypts, inner); err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, fmt.Errorf("%w: no key", reprise.ErrInvalid)
	}
	e := &encrypted{Around: wrap.Around{Inner: inner}}
	e.sealer.init(keys)
	e.pages.Init(inner, 1.25)
	return e, nil
}

func (e *encrypted) Layer() wrap.Layer { return wrap.Encrypts }

// CheckMarker compares the wrappers with the marker in the store; see reprise.Wrapper.
func (e *encrypted) CheckMarker(ctx context.Context, outermost reprise.Store) (marked bool, err error) {
	return marker.Open(ctx, outermost)
}

// Mark describes the wrapper and its keys; see marker.Wrapper.
func (e *encrypted) Mark() marker.Mark {
	return marker.Mark{Name: "encrypt", Keys: marks(e.sealer.keys)}
}

// createTries bounds how often Create finds the name taken and then free.
const createTries = 10

// Create creates a stream; see reprise.Store.
func (e *encrypted) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return e.create(ctx, info, func(sealed reprise.StreamInfo) (reprise.StreamInfo, error) {
		return e.Inner.Create(ctx, sealed)
	})
}

// CreateAppend creates a stream with its first batch, encrypted; see reprise.CreateAppender.
func (e *encrypted) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	if err := e.sealRequest(&first); err != nil {
		return reprise.StreamInfo{}, err
	}
	return e.create(ctx, info, func(sealed reprise.StreamInfo) (reprise.StreamInfo, error) {
		return e.Around.CreateAppend(ctx, sealed, first)
	})
}

// create creates a stream in the wrapped Store, or finds it.
func (e *encrypted) create(ctx context.Context, info reprise.StreamInfo,
	inside func(sealed reprise.StreamInfo) (reprise.StreamInfo, error),
) (reprise.StreamInfo, error) {
	sealed, err := e.sealInfo(info)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	for try := 1; ; try++ {
		kept, err := inside(sealed)
		if err == nil {
			return e.opened(kept)
		}
		if !errors.Is(err, reprise.ErrConflict) {
			return reprise.StreamInfo{}, err
		}
		existing, found := e.existing(ctx, info.Key)
		switch {
		case found == nil && existing.Config.Equal(info.Config) &&
			(info.Revision == 0 || existing.Revision == info.Revision):
			return existing, nil
		case found == nil:
			return reprise.StreamInfo{}, err
		case !isAbsent(found):
			return reprise.StreamInfo{}, found
		case try == createTries: // the stream is created and removed repeatedly
			return reprise.StreamInfo{}, err
		}
	}
}

// isAbsent reports whether err means that there is no stream.
func isAbsent(err error) bool {
	return errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
}

func (e *encrypted) existing(ctx context.Context, key reprise.StreamKey) (reprise.StreamInfo, error) {
	page, err := e.Inner.Read(ctx, key, 1<<63, 0)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	return e.opened(page.Info)
}

// Append encrypts the batches, in parallel if there are many bytes, and stores them.
func (e *encrypted) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	sealed := slices.Clone(reqs)
	errs := make([]error, len(reqs))
	inParallel(len(reqs), batchBytes(reqs)/4, func(i int) { // four times as fast as compressing
		errs[i] = e.sealRequest(&sealed[i])
	})
	if err := errors.Join(errs...); err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	return e.Inner.Append(ctx, sealed)
}

func (e *encrypted) sealRequest(req *reprise.AppendRequest) (err error) {
	if req.Bytes, err = e.sealer.seal(batchPlace(req.Key, req.Epoch, req.First, req.Count), req.Bytes); err != nil {
		return err
	}
	if req.End != nil {
		req.End, err = e.sealEnd(req.Key, req.Epoch, req.First+uint64(req.Count)-1, req.End)
	}
	return err
}

// Read returns a page of batches as they were appended. maxBytes counts their decrypted bytes.
func (e *encrypted) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := e.pages.Read(
		ctx,
		key,
		after,
		maxBytes,
		func(info *reprise.StreamInfo, b reprise.Batch) ([]byte, error) {
			return e.openIn(info, b.Last(), b.Bytes, func(epoch reprise.Epoch) sealPlace {
				return batchPlace(key, epoch, b.First, b.Count)
			})
		},
	)
	if err != nil {
		return reprise.Page{}, err
	}
	page.Info.Key = key
	page.Info, err = e.opened(page.Info)
	if err != nil {
		return reprise.Page{}, err
	}
	return page, nil
}

// List returns streams; see reprise.Store. A stream that cannot be decrypted is an error, because it can neither be
// shown nor omitted.
func (e *encrypted) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	q.Labels = nil // they are encrypted in the inner store
	page, err := e.Inner.List(ctx, q)
	if err != nil {
		return reprise.ListPage{}, err
	}
	page.Streams = slices.Clone(page.Streams)
	page.Streams = slices.DeleteFunc(page.Streams, func(info reprise.StreamInfo) bool { return info.Key.IsMarker() })
	for i := range page.Streams {
		if page.Streams[i], err = e.opened(page.Streams[i]); err != nil {
			return reprise.ListPage{}, err
		}
	}
	return page, nil
}

// Sweep removes expired streams; see reprise.Sweeper. A stream that cannot be decrypted is also removed and returned,
// with its configuration and End.Data as they are stored, and is also an error.
func (e *encrypted) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	swept, err := e.Around.Sweep(ctx, now, remember, limit)
	swept = slices.Clone(swept)
	for i := range swept {
		info, oerr := e.opened(swept[i])
		if oerr == nil {
			swept[i] = info
		}
		err = errors.Join(err, oerr)
	}
	return swept, err
}

func batchPlace(key reprise.StreamKey, epoch reprise.Epoch, first uint64, count int) sealPlace {
	return sealPlace{purpose: sealsBatch, key: key, epoch: epoch, seq: first, count: uint64(count)}
}
