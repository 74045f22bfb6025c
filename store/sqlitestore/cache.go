package sqlitestore

import (
	"context"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// stream is a stream in memory: its state after all commits, and its batches that are in the journal and not in the
// table batches.
type stream struct {
	id int64

	mu   sync.RWMutex
	info reprise.StreamInfo
	// pending holds batches in order; those before pending[0] are in the table. The slice is only appended to or
	// replaced, so a reader may keep it.
	pending []reprise.Batch
	// round is the writer's round in which the stream was last staged; guarded by the writer's turn.
	round uint64
	// dirty is true while the row is older than info.
	dirty bool
	// mark is when the mark of a swept stream expires; removed is set when it does.
	mark    time.Time
	removed bool
}

// state returns the error for a stream that no longer exists, or nil.
func (st *stream) state(now time.Time) error {
	switch {
	case st.removed, !st.mark.IsZero() && !st.mark.After(now):
		return reprise.ErrNotFound
	case !st.mark.IsZero():
		return reprise.ErrExpired
	}
	return nil
}

// maxCached is the maximum number of streams in memory that can be read again from their rows.
const maxCached = 50_000

// cache holds streams in memory. The row of a stream that is not in the cache is up to date.
type cache struct {
	store *Store

	mu    sync.RWMutex
	byKey map[reprise.StreamKey]*stream
	byID  map[int64]*stream

	// loading is held while a row is read into the cache, and while streams are evicted, so that no old row returns.
	loading sync.Mutex
}

func (c *cache) init(s *Store) {
	c.store = s
	c.byKey, c.byID = map[reprise.StreamKey]*stream{}, map[int64]*stream{}
}

func (c *cache) find(key reprise.StreamKey) *stream {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byKey[key]
}

// put adds a stream and returns the number of streams.
func (c *cache) put(st *stream) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byKey[st.info.Key] = st
	c.byID[st.id] = st
	return len(c.byKey)
}

// drop removes a removed stream.
func (c *cache) drop(st *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[st.info.Key] == st {
		delete(c.byKey, st.info.Key)
	}
	delete(c.byID, st.id)
}

// load finds a stream in memory or in its row. The error is reprise.ErrNotFound if there is neither a stream nor the
// mark of a swept one.
func (c *cache) load(ctx context.Context, key reprise.StreamKey) (*stream, error) {
	if st := c.find(key); st != nil {
		return st, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longestWait, errBusy)
	defer cancel()
	c.loading.Lock()
	defer c.loading.Unlock()
	if st := c.find(key); st != nil {
		return st, nil
	}
	var st *stream
	err := c.store.read(ctx, func(conn *sqlite.Conn) (err error) {
		st, err = selectStream(conn, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	if st == nil {
		return nil, reprise.ErrNotFound
	}
	if c.put(st) > maxCached {
		c.store.wakeFolder() // the folder evicts, and then folds
	}
	return st, nil
}

// evict makes room. It drops streams whose row is up to date, in no particular order. The caller has the writer's turn,
// so no stream is about to change.
func (c *cache) evict() {
	c.loading.Lock()
	defer c.loading.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byKey) < maxCached {
		return
	}
	for key, st := range c.byKey {
		if len(c.byKey) <= maxCached-maxCached/8 {
			return
		}
		st.mu.RLock()
		clean := !st.dirty && len(st.pending) == 0
		st.mu.RUnlock()
		if clean {
			delete(c.byKey, key)
			delete(c.byID, st.id)
		}
	}
}

// dirty returns the streams whose rows are out of date.
func (c *cache) dirty() []*stream {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var list []*stream
	for _, st := range c.byKey {
		st.mu.RLock()
		if st.dirty {
			list = append(list, st)
		}
		st.mu.RUnlock()
	}
	return list
}
