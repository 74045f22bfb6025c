package gateway

import (
	"math"
	"sync/atomic"
	"time"
)

// silence measures how long an upstream has been silent about an exchange. The time that the client takes to answer the
// upstream's questions does not count.
type silence struct {
	limit        time.Duration
	questions    atomic.Int64 // without an answer
	lastAnswered atomic.Int64 // in nanoseconds since 1970
}

// noLimit is the limit of Upstream.Timeout 0.
const noLimit = time.Duration(math.MaxInt64)

// left returns the time that remains when the silence has lasted as long as the limit.
func (s *silence) left() time.Duration {
	if s.questions.Load() > 0 {
		return s.limit
	}
	return s.limit - time.Since(time.Unix(0, s.lastAnswered.Load()))
}

// asked notes that the client was asked a question.
func (s *silence) asked() { s.questions.Add(1) }

// answered notes that the client has answered a question, or cannot.
func (s *silence) answered() {
	s.lastAnswered.Store(time.Now().UnixNano())
	s.questions.Add(-1)
}
