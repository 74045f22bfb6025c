package storewrap

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"reprise"
	"reprise/internal/wrap"
)

// CacheOptions are the settings of Cache. The zero value of each field means its default.
type CacheOptions struct {
	// MaxBytes limits the batches in memory, each counted with an overhead of about 200 bytes. Default: 64 MiB.
	MaxBytes int64
}

// cached is a Store that keeps read batches in memory. It is safe for concurrent use.
type cached struct {
	wrap.Around
	batches batchCache
}

// Cache keeps the most recently used batches that were read from inner in memory. If many readers read the same
// history, the wrapped Store sends, decrypts and decompresses it once. For a page with batches in memory, Cache asks
// inner only for the state of the stream and for the missing batches.
//
// The state of a stream is never cached: it comes from inner with each page, so it includes the changes of other
// replicas. A batch never changes within an epoch, so a cached batch is valid while it is in the window. A first read
// and an append are as slow as without a Cache, because a Log keeps the newest events itself.
//
// The error wraps reprise.ErrInvalid for a negative limit, or if inner has a Cache. opts may be nil.
func Cache(inner reprise.Store, opts *CacheOptions) (reprise.Store, error) {
	if err := wrap.Place(wrap.Caches, inner); err != nil {
		return nil, err
	}
	var o CacheOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxBytes < 0 {
		return nil, fmt.Errorf("%w: a cache of %d bytes", reprise.ErrInvalid, o.MaxBytes)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	c := &cached{Around: wrap.Around{Inner: inner}}
	c.batches.init(o.MaxBytes)
	return c, nil
}

func (c *cached) Layer() wrap.Layer { return wrap.Caches }

// Read returns a page; see reprise.Store.
func (c *cached) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	ask := maxBytes
	if maxBytes > 0 && c.batches.has(key, after) {
		ask = 0 // the state only
	}
	page, err := c.Inner.Read(ctx, key, after, ask)
	if err != nil || maxBytes <= 0 {
		return page, err
	}
	// A batch in memory after the tail was read a moment ago, or lost since. Only a read from there can tell inner.
	if last := c.batches.last(key, page.Info.Epoch); last > page.Info.Tail {
		from := max(after, last)
		if page, err = c.Inner.Read(ctx, key, from, maxBytes); err != nil {
			return page, err
		}
		if last > page.Info.Tail {
			c.batches.forget(key)
		}
		if from > after {
			c.batches.put(key, page.Info.Epoch, page.Batches)
			page.Batches = nil // they need not follow the position
		}
	}
	got := wrap.Collected{After: after, MaxBytes: maxBytes, Info: page.Info}
	for {
		if page.Info.Epoch != got.Info.Epoch { // the stream is in another epoch now
			got = wrap.Collected{After: after, MaxBytes: maxBytes, Info: page.Info}
			page.Batches = nil
		}
		got.Renew(page.Info, page.Batches)
		for _, b := range page.Batches {
			if !got.Full() {
				got.Add(b)
			}
		}
		c.batches.put(key, page.Info.Epoch, page.Batches)
		c.batches.take(key, &got)
		if got.Full() || got.Last() >= got.Info.Tail || got.Info.Earliest > got.Info.Tail {
			return reprise.Page{Info: got.Info, Batches: got.Batches}, nil
		}
		// What is missing now is not in memory. A trim may have moved the window past the position.
		if page, err = c.Inner.Read(ctx, key, got.Last(), got.Left()); err != nil {
			return reprise.Page{}, err
		}
	}
}

// Remove trims or removes a stream; see reprise.Store.
func (c *cached) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	err := c.Inner.Remove(ctx, key, spec)
	if err == nil && spec.Trim == 0 {
		c.batches.forget(key)
	}
	return err
}

// Sweep removes expired streams; see reprise.Sweeper.
func (c *cached) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	swept, err := c.Around.Sweep(ctx, now, remember, limit)
	for i := range swept {
		c.batches.forget(swept[i].Key)
	}
	return swept, err
}

// Close closes the wrapped Store; see reprise.Store.
func (c *cached) Close() error {
	err := c.Inner.Close()
	c.batches.clear()
	return err
}

// batchCache keeps batches by stream and seq, and drops the least recently used ones.
type batchCache struct {
	max int64

	mu           sync.Mutex
	bytes        int64
	recent       list.List // of *kept, most recently used first
	streams      map[reprise.StreamKey]*keptStream
	hits, misses uint64
}

// keptStream holds the batches of one stream in one epoch, by seq. There may be gaps.
type keptStream struct {
	epoch reprise.Epoch
	kept  []*list.Element // of *kept
}

// kept is one batch in memory.
type kept struct {
	key   reprise.StreamKey
	batch reprise.Batch
}

// keptCost is the approximate size of a batch without its bytes.
const keptCost = 200

func (k *kept) cost() int64 { return int64(len(k.batch.Bytes)) + keptCost }

func (m *batchCache) init(maxBytes int64) {
	m.max = maxBytes
	m.streams = map[reprise.StreamKey]*keptStream{}
}

// at returns the index of the first batch that ends with seq or later.
func (s *keptStream) at(seq uint64) int {
	return sort.Search(len(s.kept), func(i int) bool { return s.kept[i].Value.(*kept).batch.Last() >= seq })
}

// holds reports whether the batch at index i holds seq.
func (s *keptStream) holds(i int, seq uint64) bool {
	return i < len(s.kept) && s.kept[i].Value.(*kept).batch.First <= seq
}

// has reports whether the event after seq after is in memory, in any epoch.
func (m *batchCache) has(key reprise.StreamKey, after uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[key]
	return s != nil && s.holds(s.at(after+1), after+1)
}

// last returns the seq of the last event in memory of an epoch of a stream, or 0 if there is none.
func (m *batchCache) last(key reprise.StreamKey, epoch reprise.Epoch) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[key]
	if s == nil || s.epoch != epoch || len(s.kept) == 0 {
		return 0
	}
	return s.kept[len(s.kept)-1].Value.(*kept).batch.Last()
}

// take adds to a page the batches in memory that follow it.
func (m *batchCache) take(key reprise.StreamKey, page *wrap.Collected) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[key]
	if s == nil || s.epoch != page.Info.Epoch {
		return
	}
	next := page.From()
	if len(page.Batches) > 0 {
		next = page.Last() + 1
	}
	for i := s.at(next); s.holds(i, next) && !page.Full() && next <= page.Info.Tail; i++ {
		b := s.kept[i].Value.(*kept).batch
		m.recent.MoveToFront(s.kept[i])
		m.hits++
		page.Add(b)
		next = b.Last() + 1
	}
}

// put keeps batches that were read from the wrapped Store.
func (m *batchCache) put(key reprise.StreamKey, epoch reprise.Epoch, batches []reprise.Batch) {
	if len(batches) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[key]
	if s == nil || s.epoch != epoch {
		m.drop(key)
		s = &keptStream{epoch: epoch}
		m.streams[key] = s
	}
	for _, b := range batches {
		m.misses++
		k := &kept{key, b}
		i := s.at(b.First)
		if s.holds(i, b.First) || k.cost() > m.max {
			continue
		}
		k.batch.Bytes = bytes.Clone(b.Bytes) // b may be a small part of a much larger slice
		s.kept = slices.Insert(s.kept, i, m.recent.PushFront(k))
		m.bytes += k.cost()
	}
	for m.bytes > m.max {
		m.dropOldest()
	}
}

func (m *batchCache) dropOldest() {
	k := m.recent.Remove(m.recent.Back()).(*kept)
	m.bytes -= k.cost()
	s := m.streams[k.key]
	if i := s.at(k.batch.First); i == 0 { // a reader from front to end leaves the oldest there
		s.kept[0] = nil
		s.kept = s.kept[1:]
	} else {
		s.kept = slices.Delete(s.kept, i, i+1)
	}
	if len(s.kept) == 0 {
		delete(m.streams, k.key)
	}
}

// drop removes a stream. The caller holds mu.
func (m *batchCache) drop(key reprise.StreamKey) {
	if s := m.streams[key]; s != nil {
		for _, e := range s.kept {
			m.bytes -= e.Value.(*kept).cost()
			m.recent.Remove(e)
		}
		delete(m.streams, key)
	}
}

func (m *batchCache) forget(key reprise.StreamKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(key)
}

func (m *batchCache) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.streams {
		m.drop(key)
	}
}
