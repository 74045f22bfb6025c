// Package recent remembers values for a bounded number of keys.
package recent

import "sync"

// Bound is the number of keys of which a Map remembers every one, and half of those that it remembers at most.
const Bound = 8192

// Map remembers the values of the Bound keys that were used last, and of some that were used before. The zero Map is
// empty. It is safe for concurrent use.
type Map[K comparable, V any] struct {
	mu sync.Mutex
	// young has the keys that were used since it was empty, and old those of the young before.
	young, old map[K]V
}

// Store sets the value of a key.
func (m *Map[K, V]) Store(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, value)
}

func (m *Map[K, V]) put(key K, value V) {
	if m.young == nil || len(m.young) >= Bound {
		m.young, m.old = map[K]V{}, m.young
	}
	m.young[key] = value
}

// Load returns the value of a key, and whether it is remembered.
func (m *Map[K, V]) Load(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value, ok = m.young[key]; ok {
		return value, true
	}
	if value, ok = m.old[key]; ok {
		m.put(key, value)
	}
	return value, ok
}

// Len is the number of keys that are remembered, with those twice that are in both generations.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.young) + len(m.old)
}
