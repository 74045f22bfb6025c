package web

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// timed is a ResponseWriter that notes the deadlines of writes.
type timed struct {
	http.ResponseWriter
	set []time.Time
}

func (w *timed) SetWriteDeadline(t time.Time) error {
	w.set = append(w.set, t)
	return nil
}

// TestWriteDeadlineMovesWithTime: the deadline of an answer is set once, again when time has passed, and again after
// somebody else has set or cleared it.
func TestWriteDeadlineMovesWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 30 * time.Second
		w := &timed{}
		rec := &record{}
		rec.ResponseWriter = w
		allow := func(want ...time.Time) {
			t.Helper()
			w.set = nil
			rec.allowWrite(d)
			if !slices.EqualFunc(w.set, want, time.Time.Equal) {
				t.Fatalf("deadlines %v, want %v", w.set, want)
			}
		}
		allow(time.Now().Add(d))
		time.Sleep(999 * time.Millisecond)
		allow()
		time.Sleep(time.Millisecond)
		allow(time.Now().Add(d))
		for _, other := range []time.Time{{}, time.Now(), time.Now().Add(time.Hour)} {
			if err := http.NewResponseController(rec).SetWriteDeadline(other); err != nil {
				t.Fatal(err)
			}
			allow(time.Now().Add(d))
		}
	})
}
