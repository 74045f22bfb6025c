package client

import (
	"errors"
	"time"

	"reprise/internal/problem"
)

// foreignPatience limits the time during which answers that do not come from the server are retried, once the server
// has answered before.
const foreignPatience = 60 * time.Second

// foreignError is a successful answer or a redirect of something in front of the server, for example a login page.
type foreignError struct{ err error }

func (e *foreignError) Error() string { return e.err.Error() }
func (e *foreignError) Unwrap() error { return e.err }

// isForeign reports whether err is an answer that does not come from the server: every refusal of the server has a
// code.
func isForeign(err error) bool {
	if p, ok := problem.As(err); ok {
		return p.Code == ""
	}
	_, ok := errors.AsType[*foreignError](err)
	return ok
}

// foreignSpell is a run of consecutive answers that are not the server's.
type foreignSpell struct{ since time.Time }

// allows reports whether a request that failed with err may be retried after pause. That needs a foreign answer, a
// server that was met, and a spell shorter than foreignPatience and giveUp. A giveUp of 0 sets no limit of its own; a
// negative one allows no retry. Any other err ends the spell.
func (s *foreignSpell) allows(err error, met bool, giveUp, pause time.Duration) bool {
	if !met || !isForeign(err) {
		s.since = time.Time{}
		return false
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	bound := foreignPatience
	if giveUp != 0 {
		bound = min(bound, giveUp)
	}
	return time.Since(s.since)+pause <= bound
}
