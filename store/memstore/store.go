// Package memstore keeps streams in memory, for tests and for programs whose
// streams need not outlive them.
//
// Nothing is durable: acknowledged events live as long as the Store.
// The bytes of a batch are kept as they were passed and are never copied.
// If batches are adjacent in memory, as those of a Log are, the Store keeps
// one slice for all of them and eight bytes for each. The cost of an append does not
// depend on the number of streams.
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/listing"
)

// Options are the settings of a Store. The zero value of each field means its default.
type Options struct {
	// MaxStreams limits the streams and the marks of expired streams together.
	// At the limit, Create removes the mark with the least time left. If there
	// is none, it returns an error that wraps reprise.ErrQuota. Default: 2,097,152.
	MaxStreams int
}

const defaultMaxStreams = 1 << 21

// Store is a reprise.Store in memory. It is safe for concurrent use, and its
// methods wait only for concurrent calls. It is also a
// reprise.Sweeper, a reprise.Sizer and a reprise.CreateAppender.
type Store struct {
	maxStreams int

	// mu is held for reading while a stream is used and for writing while
	// streams come and go. It is taken before stream.mu and ending.mu. Only
	// appendToLast uses a stream without it.
	mu      sync.RWMutex
	closed  bool
	streams map[reprise.StreamKey]*stream
	tenants map[reprise.Tenant]*tenant
	created uint64 // streams ever created; the newest has this number
	numbers map[uint64]*stream
	index   listing.Index
	marks   marks

	// last is the stream that was appended to last, if it is still there. It
	// spares a row of appends to one stream most of the cost of finding it.
	last atomic.Pointer[stream]

	ending struct {
		mu    sync.Mutex
		queue queue // of the streams that have ended, by End.Expires
	}
}

// stream is one stream. Its key and epoch never change; mu guards info, history and what follows them, Store.mu the
// rest. The configuration changes only while both are held.
type stream struct {
	mu      sync.Mutex
	info    reprise.StreamInfo
	history history
	// gone is true once the stream is not in the Store any more.
	gone bool
	// shared is true once info.Producers has been handed out, so that it must
	// not be changed in place any more.
	shared bool

	tenant *tenant
	number uint64 // by order of creation
	expiry *due   // nil until the stream has ended
}

// New makes an empty Store. opts may be nil.
func New(opts *Options) *Store {
	s := &Store{
		maxStreams: defaultMaxStreams,
		streams:    map[reprise.StreamKey]*stream{},
		tenants:    map[reprise.Tenant]*tenant{},
		numbers:    map[uint64]*stream{},
		marks:      marks{byKey: map[reprise.StreamKey]*due{}},
	}
	if opts != nil && opts.MaxStreams > 0 {
		s.maxStreams = opts.MaxStreams
	}
	return s
}

// use readies s for a call that uses streams but neither makes nor removes any.
// Where it returns nil, the caller ends with s.mu.RUnlock.
func (s *Store) use(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return reprise.ErrClosed
	}
	return nil
}

// change readies s for a call that makes or removes streams. Where it returns
// nil, the caller ends with s.mu.Unlock.
func (s *Store) change(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return reprise.ErrClosed
	}
	return nil
}

// Create makes a stream or finds it; see reprise.Store. The error wraps
// reprise.ErrQuota if there are Options.MaxStreams streams.
func (s *Store) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return s.create(ctx, info, nil)
}

// CreateAppend makes a stream with its first batch, or finds it; see reprise.CreateAppender. It keeps first.Bytes.
func (s *Store) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	return s.create(ctx, info, &first)
}

// create is Create without first, and CreateAppend with it.
func (s *Store) create(ctx context.Context, info reprise.StreamInfo,
	first *reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	if err := s.change(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.mu.Unlock()
	if info.Revision > 0 {
		return s.configure(&info)
	}
	if st := s.streams[info.Key]; st != nil {
		if !st.info.Config.Equal(info.Config) {
			return reprise.StreamInfo{}, reprise.ErrConflict
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.state(), nil
	}
	s.marks.forget(info.Key)
	if len(s.streams)+len(s.marks.queue) >= s.maxStreams && !s.marks.forgetOne() {
		return reprise.StreamInfo{}, fmt.Errorf("%w: %d streams", reprise.ErrQuota, len(s.streams))
	}
	config := info.Config
	config.Labels, config.Meta = maps.Clone(config.Labels), bytes.Clone(config.Meta)
	st := &stream{info: reprise.StreamInfo{
		Key: info.Key, Epoch: info.Epoch, Config: config, Created: info.Created, Owner: info.Owner,
		Earliest: info.Tail + 1, Tail: info.Tail, Producers: slices.Clone(info.Producers),
		Lineage: slices.Clone(info.Lineage),
	}}
	s.add(st)
	if info.End != nil {
		end := *info.End
		end.Data = bytes.Clone(end.Data)
		s.end(st, end)
	}
	if first != nil {
		if err := s.append(first); err != nil {
			s.drop(st)
			return reprise.StreamInfo{}, err
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.state(), nil
}

// add makes st findable. The caller holds mu for writing.
func (s *Store) add(st *stream) {
	key := st.info.Key
	s.created++
	st.number = s.created
	st.tenant = s.tenants[key.Tenant]
	if st.tenant == nil {
		st.tenant = &tenant{}
		s.tenants[key.Tenant] = st.tenant
	}
	st.tenant.streams++
	st.tenant.overhead += st.info.Overhead()
	s.streams[key] = st
	s.numbers[st.number] = st
	s.index.Add(key, st.number)
}

// drop is the inverse of add. The caller holds mu for writing.
func (s *Store) drop(st *stream) {
	key := st.info.Key
	delete(s.streams, key)
	delete(s.numbers, st.number)
	s.last.Store(nil)
	s.index.Remove(key, st.number)
	st.leave()
	st.tenant.count(-int64(st.info.Kept()), -st.info.Bytes)
	st.tenant.overhead -= st.info.Overhead()
	if st.tenant.streams--; st.tenant.streams == 0 {
		delete(s.tenants, key.Tenant)
	}
	if st.expiry != nil {
		s.ending.queue.remove(st.expiry)
	}
}

// leave makes st unusable, after the last append.
func (st *stream) leave() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.gone = true
}

// state is what is known of st. The caller holds mu.
func (st *stream) state() reprise.StreamInfo {
	st.shared = true
	return st.info
}

// Read returns a page; see reprise.Store. The cost is O(log n) in the number of
// batches, and one allocation.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if err := s.use(ctx); err != nil {
		return reprise.Page{}, err
	}
	defer s.mu.RUnlock()
	st := s.streams[key]
	if st == nil {
		if s.marks.has(key, time.Now()) {
			return reprise.Page{}, reprise.ErrExpired
		}
		return reprise.Page{}, reprise.ErrNotFound
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	page := reprise.Page{Info: st.state()}
	if after < st.info.Tail && st.info.Earliest <= st.info.Tail && maxBytes > 0 {
		page.Batches = st.history.read(max(after+1, st.info.Earliest), maxBytes)
	}
	return page, nil
}

// Remove removes events or a whole stream; see reprise.Store. Removing a stream
// without a trace also removes its mark, if there is one.
func (s *Store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if spec.Trim != 0 {
		return s.trim(ctx, key, spec)
	}
	if err := s.change(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	st := s.streams[key]
	switch {
	case st == nil:
		if spec.Remember.IsZero() && spec.Epoch == "" {
			s.marks.forget(key)
		}
	case spec.Epoch == "" || spec.Epoch == st.info.Epoch:
		s.drop(st)
		if !spec.Remember.IsZero() {
			s.marks.add(key, spec.Remember)
		}
	}
	return nil
}

func (s *Store) trim(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if err := s.use(ctx); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	st := s.streams[key]
	if st == nil {
		return reprise.ErrNotFound
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	earliest := min(spec.Trim, st.info.Tail+1)
	if spec.Epoch != "" && spec.Epoch != st.info.Epoch || earliest <= st.info.Earliest {
		return nil
	}
	st.tenant.count(-int64(earliest-st.info.Earliest), spec.Kept-st.info.Bytes)
	st.info.Earliest, st.info.Bytes = earliest, spec.Kept
	st.history.trim(earliest)
	return nil
}

// Close releases all streams; see reprise.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, st := range s.streams {
		st.leave()
	}
	s.streams, s.numbers, s.tenants, s.index = nil, nil, nil, listing.Index{}
	s.last.Store(nil)
	s.marks, s.ending.queue = marks{}, nil
	return nil
}
