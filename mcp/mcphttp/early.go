package mcphttp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"reprise"
)

// early is the sink of an exchange that may be over before it is worth a stream; see Options.Quick.
type early struct {
	// decided is closed when there is a response and nothing else, or something that needs a stream.
	decided chan struct{}

	mu    sync.Mutex
	room  sync.Cond
	queue [][]byte
	bytes int
	json  bool // a response that is all there is needs no stream
	quick bool // the response is all there is
	over  bool // decided is closed
	// out receives the messages once there is a stream. Without a stream, gone is true if no client reads, and failed
	// is the reason why there will be none.
	out    *outlet
	gone   bool
	failed error
	// closing is set when the connection is to be closed. retry is then the wait that the client is asked for.
	closing bool
	retry   time.Duration
}

// newEarly makes the sink of an exchange. With json its response may be sent without a stream.
func newEarly(json bool) *early {
	e := &early{json: json, decided: make(chan struct{})}
	e.room.L = &e.mu
	return e
}

func (e *early) send(message []byte, last bool) error {
	e.mu.Lock()
	for e.bytes > maxQueue && e.out == nil && !e.gone && e.failed == nil {
		e.room.Wait()
	}
	switch out := e.out; {
	case out != nil:
		e.mu.Unlock()
		return out.send(message, last)
	case e.gone:
		e.mu.Unlock()
		return nil
	case e.failed != nil:
		e.mu.Unlock()
		return e.failed
	}
	defer e.mu.Unlock()
	if e.quick {
		return reprise.ErrEnded
	}
	e.quick = e.json && last && len(e.queue) == 0 && !e.over
	e.queue = append(e.queue, message)
	e.bytes += len(message)
	if last && !e.quick {
		e.queue = append(e.queue, nil) // the end
	}
	e.decide()
	return nil
}

// decide closes decided. The caller holds mu.
func (e *early) decide() {
	if !e.over {
		e.over = true
		close(e.decided)
	}
}

// close has the connection closed as soon as the client knows what to come back to.
func (e *early) close(retry time.Duration) (later bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.out != nil {
		return false
	}
	e.closing, e.retry = true, retry
	e.decide()
	return true
}

// response returns the response if it is the only message, and nil if a stream is needed.
func (e *early) response() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decide() // what comes from now on is for the stream
	if e.quick {
		return e.queue[0]
	}
	return nil
}

// maxFirst is the most bytes that a stream is made with.
const maxFirst = 1 << 20

// first returns the messages so far, as the events with which the stream is created. n is their number, and end reports
// whether the last one ends the stream. It returns no events if they are too large for one commit.
func (e *early) first() (events []reprise.Event, n int, end bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes > maxFirst {
		return nil, 0, false
	}
	for i, message := range e.queue {
		if message == nil {
			break
		}
		end = e.isLast(i)
		events, n = append(events, sentEvents(message, end)...), i+1
	}
	return events, n, end
}

// isLast reports whether the end follows the message i of the queue. The caller holds mu.
func (e *early) isLast(i int) bool { return i+2 == len(e.queue) && e.queue[i+1] == nil }

// promote hands over to a stream that was made with the first n messages.
func (e *early) promote(out *outlet, n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.room.Broadcast()
	for i, message := range e.queue {
		if i < n {
			continue
		}
		if message == nil {
			break
		}
		last := e.isLast(i)
		if err := out.send(message, last); err != nil {
			e.failed = err
			return err
		}
	}
	e.queue, e.out = nil, out
	return nil
}

// giveUp records that there will be no stream, because no client reads, or because of err.
func (e *early) giveUp(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone, e.failed, e.queue = err == nil, err, nil
	e.room.Broadcast()
}

// flush is outlet.flush.
func (e *early) flush() {
	e.mu.Lock()
	out := e.out
	e.mu.Unlock()
	if out != nil {
		out.flush()
	}
}

// quick returns the time within which an answer is sent without being kept. It is 0 or less if every answer is kept.
func (h *Handler) quick(messages []Message) time.Duration {
	if len(messages) != 1 || h.opts.Quick <= 0 {
		return 0
	}
	if method := messages[0].Method; method == methodPing || strings.HasSuffix(method, "/list") {
		return max(h.opts.Quick, h.opts.KeepAlive)
	}
	return h.opts.Quick
}

// keepAfter is the time for which the creation of a kept call's stream waits for a first message. It is about the
// duration of a commit: an answer within that time needs one commit instead of two, and later answers are not delayed.
const keepAfter = 2 * time.Millisecond

// callEarly answers a request as JSON if that takes no longer than quick, which may be 0 or less, and otherwise with a
// stream.
//
// The backend gets the request before the stream exists. Messages that it has sent by then, even the answer, are kept
// with the stream in one commit, if the Store supports that. If the backend has sent nothing yet, the stream is
// committed while the backend works, and the answer waits only for its own commit. The guarantees still hold:
//
//   - Nothing is missed. A client needs an event id to resume, and follow shows the first one once the stream is kept.
//     A client that disconnects earlier, or whose server dies, has seen nothing, as if its request had never arrived
//     completely.
//   - Nothing is seen twice. Messages wait in early, in order, until promote passes them to the outlet of the stream.
//     Later messages go to the outlet directly.
//   - Nothing runs twice. A call that has begun is never refused with a status that invites a retry, such as 503. If
//     the stream cannot be created, each request is answered with the error that its outcome is unknown. A process that
//     dies in between leaves no stream that another process could take over, and a server never repeats a call.
//
// A client that disconnects does not stop the creation of the stream: a disconnect cancels nothing.
func (s *Session) callEarly(w http.ResponseWriter, r *http.Request, x *Exchange, quick time.Duration) *refusal {
	e := newEarly(quick > 0)
	x.sink = e
	if !s.h.run(s.life, x) {
		s.dismiss(x)
		return refusalOf(errNoSession)
	}
	if quick <= 0 {
		e.wait(context.WithoutCancel(r.Context()), keepAfter)
	} else if !e.wait(r.Context(), quick) { // the client has nothing to resume; the request continues
		return nil
	}
	if response := e.response(); response != nil {
		writeJSON(w, http.StatusOK, response)
		return nil
	}
	reader, err := s.keepCall(context.WithoutCancel(r.Context()), x, e)
	if err != nil {
		e.giveUp(err)
		x.end(err)
		answerUnknown(w, x, err)
		return nil
	}
	s.follow(w, r, x.name, reader, func() {
		if e.closing {
			s.closeConnection(x.name, e.retry)
		}
	})
	return nil
}

// wait waits until the form of the answer is decided, but not longer than quick. It returns false if ctx ends: then the
// client is gone.
func (e *early) wait(ctx context.Context, quick time.Duration) bool {
	timer := time.NewTimer(quick)
	defer timer.Stop()
	select {
	case <-e.decided:
	case <-timer.C:
	case <-ctx.Done():
		e.giveUp(nil)
		return false
	}
	return true
}

// answerUnknown answers the requests of an exchange that has begun and whose messages cannot be kept.
func answerUnknown(w http.ResponseWriter, x *Exchange, why error) {
	e := rpcError{
		Code:    codeInternal,
		Message: fmt.Sprintf("the answer cannot be kept; whether the request was carried out is not known (%v)", why),
		Data:    map[string]string{"code": "answer_lost"},
	}
	var answers [][]byte
	for i := range x.Messages {
		if x.Messages[i].isCall() {
			answers = append(answers, errorResponse(x.Messages[i].ID, e))
		}
	}
	writeAnswers(w, answers, len(x.Messages) == 1)
}
