package driver

import "sync"

// Hub holds the watchers of a Store, each under the key by which the technology of the Store tells of changes. The zero
// value holds none.
type Hub[K comparable, W any] struct {
	// Turn, if set, is called when a key gets its first watcher, and when it has lost its last. Its error for the first
	// one is that of Add. It must not call the Hub.
	Turn func(key K, watched bool) error

	mu    sync.Mutex
	byKey map[K]map[*W]struct{}
}

// Add adds a watcher until stop is called, which may be called more than once.
func (h *Hub[K, W]) Add(key K, one *W) (stop func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKey[key] == nil {
		if h.Turn != nil {
			if err := h.Turn(key, true); err != nil {
				return nil, err
			}
		}
		if h.byKey == nil {
			h.byKey = map[K]map[*W]struct{}{}
		}
		h.byKey[key] = map[*W]struct{}{}
	}
	h.byKey[key][one] = struct{}{}
	return sync.OnceFunc(func() { h.remove(key, one) }), nil
}

func (h *Hub[K, W]) remove(key K, one *W) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byKey[key], one)
	if len(h.byKey[key]) > 0 {
		return
	}
	delete(h.byKey, key)
	if h.Turn != nil {
		_ = h.Turn(key, false)
	}
}

// Of returns the watchers of a key.
func (h *Hub[K, W]) Of(key K) (list []*W) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for one := range h.byKey[key] {
		list = append(list, one)
	}
	return list
}

// All returns all watchers.
func (h *Hub[K, W]) All() (list []*W) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, of := range h.byKey {
		for one := range of {
			list = append(list, one)
		}
	}
	return list
}

// Again calls Turn for all keys that are watched.
func (h *Hub[K, W]) Again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.byKey {
		_ = h.Turn(key, true)
	}
}
