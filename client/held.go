package client

import (
	"errors"
	"time"

	"reprise/internal/problem"
	"reprise/internal/ssefollow"
)

// heldAnswers is the number of consecutive answers that had a header and no body before a loop polls.
const heldAnswers = 2

// maxPoll is the longest wait that the server accepts.
const maxPoll = time.Minute

// holding detects a proxy that holds back an answer until it is complete. The loop then polls: it asks for answers that
// end with the first events, or after a wait. The server sends a heartbeat in the middle of a wait, which shows when
// answers are no longer held back.
type holding struct {
	silent int           // consecutive answers with a header and no body
	wait   time.Duration // of an answer while the loop polls
	beat   time.Time     // when the present answer has brought a heartbeat
	// unknown: the server is older than the parameter wait.
	unknown bool
}

// polls reports whether the loop polls.
func (h *holding) polls() bool { return h.silent >= heldAnswers && !h.unknown }

// refused reports whether err is the refusal of a poll by a server that is too old for it. The loop does not poll any
// more then.
func (h *holding) refused(err error) bool {
	if p, _ := problem.As(err); !h.polls() || p.Code != problem.CodeInvalid {
		return false
	}
	h.unknown = true
	return true
}

// failed takes the reason for the end of an answer that came, or of a request. It reports whether that was an expected
// end of a poll.
func (h *holding) failed(err error, live bool) bool {
	polled := h.polls() && errors.Is(err, ssefollow.ErrDropped)
	streams := !h.beat.IsZero() && time.Since(h.beat) >= h.wait/4
	switch {
	case errors.Is(err, ssefollow.ErrHeld):
		h.silent++
	case !h.polls() && live || polled && streams:
		h.silent = 0
	}
	h.beat = time.Time{}
	return polled
}
