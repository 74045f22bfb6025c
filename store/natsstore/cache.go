package natsstore

import (
	"container/list"
	"slices"
	"sync"

	"reprise"
)

// cache saves requests to the server for recently used streams. Correctness does not depend on it: a stale state is
// detected when an append is rejected, and records never change.
type cache struct {
	mu      sync.Mutex
	byKey   map[reprise.StreamKey]*list.Element
	order   list.List // of *known, most recently used first
	records map[uint64]*record
	size    int // of records, in bytes, approximately
}

const (
	maxKnown       = 32 << 10
	maxRecordBytes = 16 << 20
	// maxPlaces is the maximum number of cached places of a stream.
	maxPlaces = 64
)

// known is the cached knowledge of a stream.
type known struct {
	key  reprise.StreamKey
	last *entry // the newest message, without its body
	// places are the starts of batches, ordered by their first event. From the sequence of a place on, the next message
	// of the stream with a batch is the one that begins with that event.
	places []skip
	// written and base estimate the data before the window; see tidy.
	written, base int64
}

// sameLife reports whether two messages belong to the same stream and no events between them were lost.
func (e *entry) sameLife(o *entry) bool { return e.index == o.index && e.epoch == o.epoch }

func (c *cache) init() {
	c.byKey = map[reprise.StreamKey]*list.Element{}
	c.records = map[uint64]*record{}
}

// of returns the entry of a stream, which is empty at first. The caller holds mu.
func (c *cache) of(key reprise.StreamKey) *known {
	if e := c.byKey[key]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*known)
	}
	if c.order.Len() >= maxKnown {
		oldest := c.order.Back()
		delete(c.byKey, oldest.Value.(*known).key)
		c.order.Remove(oldest)
	}
	k := &known{key: key}
	c.byKey[key] = c.order.PushFront(k)
	return k
}

// last returns the newest known message of a stream, or nil.
func (c *cache) last(key reprise.StreamKey) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*known).last
	}
	return nil
}

// put records a message if it is newer than the known one.
func (c *cache) put(key reprise.StreamKey, last *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putLocked(key, last)
}

// replace records a message as the newest one, even if the known one is newer: the server may have lost messages.
func (c *cache) replace(key reprise.StreamKey, last *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.of(key); k.last != nil && (k.last.seq > last.seq || k.last.tail > last.tail) {
		k.last, k.places = nil, nil
	}
	c.putLocked(key, last)
}

func (c *cache) putLocked(key reprise.StreamKey, last *entry) *known {
	k := c.of(key)
	if k.last != nil && k.last.sameLife(last) && k.last.seq >= last.seq {
		return k
	}
	if k.last == nil || !k.last.sameLife(last) {
		k.places, k.written, k.base = nil, 0, last.kept
	}
	k.last = &entry{state: last.state, seq: last.seq, server: last.server}
	return k
}

// lost reports whether last, which was just read, is older than the known message of the same stream.
func (c *cache) lost(key reprise.StreamKey, last *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil || last == nil || last.gone {
		return false
	}
	k := e.Value.(*known).last
	return k != nil && k.sameLife(last) && k.tail > last.tail
}

// forget drops the entry of a stream.
func (c *cache) forget(key reprise.StreamKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		delete(c.byKey, key)
		c.order.Remove(e)
	}
}

// appended records a message that was written. It reports whether the data before the window is worth a purge.
func (c *cache) appended(key reprise.StreamKey, last *entry, bytes int) (purge bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.putLocked(key, last)
	k.written += int64(bytes)
	dead := k.written - (last.kept - k.base)
	if dead < max(last.kept/purgePart, leastPurge) {
		return false
	}
	k.written, k.base = 0, last.kept
	return true
}

// place returns the place of the batch that begins with seq, if it is known, and the nearest known place from there on.
// Both belong to the stream as it is in last.
func (c *cache) place(key reprise.StreamKey, last *entry, seq uint64) (at, beyond skip) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return skip{}, skip{}
	}
	k := e.Value.(*known)
	if k.last == nil || !k.last.sameLife(last) {
		return skip{}, skip{}
	}
	i, found := slices.BinarySearchFunc(k.places, seq, compareFirst)
	if found {
		at = k.places[i]
	}
	if i < len(k.places) {
		beyond = k.places[i]
	}
	return at, beyond
}

func compareFirst(p skip, seq uint64) int {
	switch {
	case p.first < seq:
		return -1
	case p.first > seq:
		return 1
	}
	return 0
}

// addPlace records the start of a batch. If there are too many places, it drops every other one.
func (c *cache) addPlace(key reprise.StreamKey, last *entry, p skip) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.of(key)
	if k.last == nil || !k.last.sameLife(last) {
		return
	}
	i, found := slices.BinarySearchFunc(k.places, p.first, compareFirst)
	if found {
		return
	}
	k.places = slices.Insert(k.places, i, p)
	if len(k.places) > maxPlaces {
		for i := range maxPlaces / 2 {
			k.places[i] = k.places[2*i+1]
		}
		k.places = k.places[:maxPlaces/2]
	}
}

func (c *cache) record(seq uint64) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[seq]
}

// addRecord caches a record. If the records become too large, it drops all of them; those in use return.
func (c *cache) addRecord(seq uint64, r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := 256 + len(r.config.Meta)
	for label, value := range r.config.Labels {
		size += 64 + len(label) + len(value)
	}
	if c.size += size; c.size > maxRecordBytes {
		clear(c.records)
		c.size = size
	}
	c.records[seq] = r
}
