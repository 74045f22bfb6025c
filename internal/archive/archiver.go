package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"sync"
	"time"

	"reprise"
)

// Sink takes streams that have ended. It is safe for concurrent use.
type Sink interface {
	// Put archives one life of a stream, with the batches from the one that holds info.Earliest to the tail. The
	// archive becomes visible completely or not at all, and is durable when Put returns. An error of batches is
	// returned unchanged. Put may keep the bytes of a batch, and must not change them.
	Put(ctx context.Context, info reprise.StreamInfo, batches iter.Seq2[reprise.Batch, error]) error
	// Has reports whether this life of the stream is archived whole. A Sink that cannot
	// know says no, and gets streams more than once.
	Has(ctx context.Context, info reprise.StreamInfo) (bool, error)
	io.Closer
}

// Options are the settings of an Archiver and a Keeper. The zero value of each field means its default.
type Options struct {
	// Tenant is whose streams are archived. Default: all tenants.
	Tenant reprise.Tenant
	// Parallel is the number of streams that are archived at a time. Default: 4.
	Parallel int
	// PageBytes is how much of a stream is read at a time. Default: 1 MiB.
	PageBytes int
	// Every is the time between two passes of a Keeper. Default: 1 minute.
	Every time.Duration
	// Ahead is how long before its expiry a Keeper archives a stream, so that a shorter failure of the archive delays
	// nothing. Default: 15 minutes.
	Ahead time.Duration
	// Logger logs the streams that a Keeper could not archive. Default: silent.
	Logger *slog.Logger
	// Progress, if it is not nil, is called after each stream of a pass with the results so far, by one goroutine at a
	// time. It must not keep the Result.
	Progress func(*Result)
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Parallel < 1 {
		d.Parallel = 4
	}
	if d.PageBytes < 1 {
		d.PageBytes = 1 << 20
	}
	if d.Every <= 0 {
		d.Every = time.Minute
	}
	if d.Ahead <= 0 {
		d.Ahead = 15 * time.Minute
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Archiver takes streams that have ended from a Store to a Sink. It is safe for concurrent
// use, and two that work on the same streams do no harm but work.
type Archiver struct {
	store reprise.Store
	sink  Sink
	opts  Options
}

// New makes an Archiver. Store and Sink stay the caller's. opts may be nil.
func New(store reprise.Store, sink Sink, opts *Options) *Archiver {
	return &Archiver{store: store, sink: sink, opts: opts.withDefaults()}
}

// Result is the result of a pass.
type Result struct {
	// Archived counts the streams that were archived now, Present those that were before.
	Archived int64 `json:"archived"`
	Present  int64 `json:"present"`
	// Removed counts those that were then removed from the store.
	Removed int64 `json:"removed"`
	// Events and Bytes count the archived ones.
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
	// Failed are the streams that could not be archived, of which nothing was removed.
	Failed []Failure `json:"-"`
}

// Failure is a stream that could not be archived.
type Failure struct {
	Key reprise.StreamKey
	// Expires is when it may be swept.
	Expires time.Time
	Err     error
	// Lost is true if the store could not read it and trying again will not help.
	Lost bool
}

// Pass archives every stream that has ended and that chosen is true for, and, if
// remove is true, removes each without a trace once it is archived. A stream that fails does not keep others
// from being archived: it is in Result.Failed. The error is for streams that could not be
// listed, or the cause of a cancelled context. chosen may be nil, for all.
func (a *Archiver) Pass(ctx context.Context, chosen func(*reprise.StreamInfo) bool, remove bool) (Result, error) {
	p := &pass{Archiver: a, remove: remove, jobs: make(chan reprise.StreamInfo)}
	var workers sync.WaitGroup
	for range a.opts.Parallel {
		workers.Go(func() {
			for info := range p.jobs {
				p.settle(ctx, info)
			}
		})
	}
	err := p.list(ctx, chosen)
	close(p.jobs)
	workers.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return p.result, fmt.Errorf("archive: %w", err)
	}
	return p.result, nil
}

// pass is one pass under way.
type pass struct {
	*Archiver
	remove bool
	jobs   chan reprise.StreamInfo

	mu     sync.Mutex
	result Result
}

func (p *pass) list(ctx context.Context, chosen func(*reprise.StreamInfo) bool) error {
	q := reprise.ListQuery{Tenant: p.opts.Tenant, AllNamespaces: true, Limit: 1000}
	for {
		page, err := p.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			info := &page.Streams[i]
			if info.End == nil || chosen != nil && !chosen(info) {
				continue
			}
			select {
			case p.jobs <- *info:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// settle archives a stream of the list and counts how that went.
func (p *pass) settle(ctx context.Context, info reprise.StreamInfo) {
	fresh, err := p.archive(ctx, info)
	removed := false
	if err == nil && p.remove {
		err = p.store.Remove(ctx, info.Key, reprise.RemoveSpec{Epoch: info.Epoch})
		removed = err == nil
	}
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, errGone):
	case err != nil:
		lost := errors.Is(err, errLost)
		p.result.Failed = append(p.result.Failed, Failure{info.Key, info.End.Expires, err, lost})
	case fresh:
		p.result.Archived++
		p.result.Events += int64(info.Kept())
		p.result.Bytes += info.Bytes
	default:
		p.result.Present++
	}
	if removed {
		p.result.Removed++
	}
	if p.opts.Progress != nil {
		p.opts.Progress(&p.result)
	}
}

var (
	// errGone: the stream is not in the store any more, or in another life.
	errGone = errors.New("the stream was removed meanwhile")
	// errLost: the store cannot read the stream, and will not be able to.
	errLost = errors.New("the store cannot read the stream")
)

// archive archives one life of a stream, if it is not archived yet; fresh is true if so.
func (a *Archiver) archive(ctx context.Context, info reprise.StreamInfo) (fresh bool, err error) {
	has, err := a.sink.Has(ctx, info)
	if err != nil || has {
		return false, err
	}
	page, err := a.read(ctx, info.Key, 0)
	if err == nil && page.Info.Epoch != info.Epoch {
		err = errGone
	}
	if err != nil {
		return false, err
	}
	return true, a.sink.Put(ctx, page.Info, a.batches(ctx, page))
}

// read reads a page of a stream.
func (a *Archiver) read(ctx context.Context, key reprise.StreamKey, after uint64) (reprise.Page, error) {
	page, err := a.store.Read(ctx, key, after, a.opts.PageBytes)
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, reprise.ErrUnavailable), errors.Is(err, reprise.ErrClosed):
		return page, err
	case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
		return page, errGone
	}
	return page, fmt.Errorf("%w: %w", errLost, err)
}

// batches yields the batches of a stream, of which page is the first.
func (a *Archiver) batches(ctx context.Context, page reprise.Page) iter.Seq2[reprise.Batch, error] {
	return func(yield func(reprise.Batch, error) bool) {
		info, after := page.Info, uint64(0)
		for {
			for _, b := range page.Batches {
				if !yield(b, nil) {
					return
				}
				after = b.Last()
			}
			if after >= info.Tail || len(page.Batches) == 0 {
				return // where something is missing, the Sink sees it
			}
			next, err := a.read(ctx, info.Key, after)
			if err == nil && next.Info.Epoch != info.Epoch {
				err = errGone
			}
			if err != nil {
				yield(reprise.Batch{}, err)
				return
			}
			page = next
		}
	}
}
