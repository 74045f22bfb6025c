package park

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// A response that leaves net/http leaves 30 KiB of garbage. If many do and the server is quiet afterwards, the next
// collection is up to two minutes away, and the system gets little of it back for longer. So once trimAt responses were
// parked, and none for trimQuiet, memory is collected and returned, at most once in trimEvery. A collection takes time
// for all that is live: with a large heap it waits until the responses have left a trimShare of that.
const (
	trimAt    = 256
	trimLeft  = 30 << 10
	trimShare = 8
	trimQuiet = time.Second
	trimEvery = 10 * time.Second
)

// trimmer returns memory to the system.
type trimmer struct {
	live func() uint64 // liveHeap

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
	case t.timer == nil && (t.parked%trimAt != 0 || !trimPays(t.parked, t.live())):
	case t.timer == nil:
		t.timer = time.AfterFunc(max(trimQuiet, trimEvery-time.Since(t.last)), t.trim)
	case time.Since(t.last) >= trimEvery:
		t.timer.Reset(trimQuiet)
	}
}

// trimPays reports whether the garbage of parked responses is worth a collection with so many live bytes.
func trimPays(parked int, live uint64) bool { return uint64(parked)*trimLeft >= live/trimShare }

// liveHeap returns the number of bytes that the last collection has found live.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
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
