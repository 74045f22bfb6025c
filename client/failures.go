package client

import (
	"time"

	"reprise/internal/backoff"
)

// failures says how long to wait after each failure in a row.
type failures struct {
	pause backoff.Backoff
	tries int       // failures since the last success
	since time.Time // when the first of them was
	// immediate: there was a success, and the first failure after it costs no wait.
	immediate bool
}

// newFailures counts failures from none on, with pauses that grow from min to max.
func newFailures(min, max time.Duration) failures {
	return failures{pause: backoff.Backoff{First: min, Most: max}}
}

// next counts a failure and returns the time to wait. It is 0 for the first failure after a
// success; otherwise it is what the server asks for, and the next pause on top of it.
func (b *failures) next(asked time.Duration) time.Duration {
	if b.tries == 0 {
		b.since = time.Now()
	}
	b.tries++
	if b.immediate {
		b.immediate = false
		return 0
	}
	return asked + b.pause.Next()
}

// succeeded makes the next failure the first one.
func (b *failures) succeeded() {
	b.tries, b.immediate = 0, true
	b.pause.Reset()
}

// outlasts reports whether waiting would go beyond a bound on the time since the
// first failure; 0 is no bound.
func (b *failures) outlasts(bound, wait time.Duration) bool {
	return bound < 0 || bound > 0 && time.Since(b.since)+wait > bound
}
