package relay

import (
	"testing"
	"testing/synctest"

	"reprise"
)

// TestBackendWaitsForItsClient while that reads, so that the client misses nothing that is no longer kept.
func TestBackendWaitsForItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, passed := &recording{moved: make(chan struct{})}, 0
		go func() {
			for range 4 {
				rec.wait([]reprise.Event{{Data: make([]byte, mostBehind-1)}})
				passed++
			}
		}()
		for _, step := range []struct {
			sent int64
			want int
		}{{0, 1}, {mostBehind - 2, 2}, {mostBehind - 2, 2}, {-1, 4}} {
			rec.took(step.sent)
			synctest.Wait()
			if passed != step.want {
				t.Errorf("after %d bytes were sent: %d appends, want %d", step.sent, passed, step.want)
			}
		}
	})
}
