package httpserver

import (
	"net/http"
	"time"
)

// boundStreams gives deadlines for writes over HTTP/2 the meaning that they have over HTTP/1: a write that lasts longer
// fails. Otherwise net/http ends a stream at its deadline, even if no write is under way.
func boundStreams(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		s := &stream{ResponseWriter: w, rc: http.NewResponseController(w)}
		defer s.arm() // buffered data are sent after we return
		next.ServeHTTP(s, r)
	})
}

// stream is the ResponseWriter of a request over HTTP/2. It is used by the goroutine of the handler alone.
type stream struct {
	http.ResponseWriter
	rc       *http.ResponseController
	deadline time.Time // of writes, zero for none
}

// Unwrap lets http.ResponseController reach what s does not change.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// SetWriteDeadline sets the deadline of the writes to come.
func (s *stream) SetWriteDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *stream) arm() { _ = s.rc.SetWriteDeadline(s.deadline) }

// disarm takes the deadline back while nothing is written.
func (s *stream) disarm() {
	if !s.deadline.IsZero() {
		_ = s.rc.SetWriteDeadline(time.Time{})
	}
}

func (s *stream) Write(p []byte) (int, error) {
	s.arm()
	defer s.disarm()
	return s.ResponseWriter.Write(p)
}

// FlushError sends the written data.
func (s *stream) FlushError() error {
	s.arm()
	defer s.disarm()
	return s.rc.Flush()
}

// Flush implements http.Flusher.
func (s *stream) Flush() { _ = s.FlushError() }
