package park

import (
	"runtime/debug"
	"sync"
	"time"
)

// A response that leaves net/http leaves 30 KiB of garbage. If many do and the server is quiet afterwards, the next
// collection is up to two minutes away, and the system gets little of it back for longer. So once trimAt responses were
// parked, and none for trimQuiet, memory is collected and returned, at most once in trimEvery.
const (
	trimAt    = 256
	trimQuiet = time.Second
	trimEvery = 10 * time.Second
)

// trimmer returns memory to the system.
type trimmer struct {
	mu     sync.Mutex
	parked int // since the last time
	last   time.Time
	timer  *time.Timer // nil unless a time is set
}

// note notes that a response has left net/http.
func (t *trimmer) note() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parked++
	switch {
	case t.parked < trimAt:
	case t.timer == nil:
		t.timer = time.AfterFunc(max(trimQuiet, trimEvery-time.Since(t.last)), t.trim)
	case time.Since(t.last) >= trimEvery:
		t.timer.Reset(trimQuiet)
	}
}

func (t *trimmer) trim() {
	t.mu.Lock()
	t.parked, t.last, t.timer = 0, time.Now(), nil
	t.mu.Unlock()
	debug.FreeOSMemory()
}

// stop takes a time back that is set.
func (t *trimmer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}
