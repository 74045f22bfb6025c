package backoff

import "time"

// Failures computes the pause after each consecutive failure. The zero Failures has pauses of length 0.
//
// A Failures is not safe for concurrent use.
type Failures struct {
	// Pause is the pauses between tries.
	Pause Backoff

	tries     int       // failures since the last success
	since     time.Time // when the first of them was
	immediate bool      // the next failure costs no wait
}

// Next counts a failure and returns the time to wait. It is 0 for the first failure after Succeeded; otherwise it is
// the time that the server asks for plus the next pause.
func (f *Failures) Next(asked time.Duration) time.Duration {
	if f.tries == 0 {
		f.since = time.Now()
	}
	f.tries++
	if f.immediate {
		f.immediate = false
		return 0
	}
	return asked + f.Pause.Next()
}

// Succeeded makes the next failure the first one, and lets it cost no wait.
func (f *Failures) Succeeded() {
	f.Reset()
	f.immediate = true
}

// Reset makes the next failure the first one.
func (f *Failures) Reset() {
	f.tries, f.immediate = 0, false
	f.Pause.Reset()
}

// Tries returns the number of failures in a row.
func (f *Failures) Tries() int { return f.tries }

// Since returns when the first failure in a row was.
func (f *Failures) Since() time.Time { return f.since }

// Outlasts reports whether a wait would exceed a limit on the time since the first failure. A bound of 0 is no limit,
// and a negative one allows no wait.
func (f *Failures) Outlasts(bound, wait time.Duration) bool {
	return bound < 0 || bound > 0 && time.Since(f.since)+wait > bound
}
