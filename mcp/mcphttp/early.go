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
	// out is where messages go once there is a stream. Without one, gone is true when nobody reads, and
	// failed is why there will be none.
	out    *outlet
	gone   bool
	failed error
	// closing is set when the connection is to be closed, and retry is what the client is told then.
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

// response is the response where that is all there is; nil says that a stream is needed.
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

// first is what was said so far, for the stream to be made with: the events of n messages, and whether the last of
// them is the end. There are none where that is too much for one commit.
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

// give up: there will be no stream, because nobody reads, or because of err.
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

// quick is how long the answer to messages may take that is not kept, 0 or less if it is kept in any case.
func (h *Handler) quick(messages []Message) time.Duration {
	if len(messages) != 1 || h.opts.Quick <= 0 {
		return 0
	}
	if method := messages[0].Method; method == methodPing || strings.HasSuffix(method, "/list") {
		return max(h.opts.Quick, h.opts.KeepAlive)
	}
	return h.opts.Quick
}

// keepAfter is how long the stream of a call that is to be kept waits for something to be made with. It is about as
// long as a commit: an answer that is there by then waits for one commit in place of two, and later ones are no slower.
const keepAfter = 2 * time.Millisecond

// callEarly answers a request as JSON if that takes no longer than quick, which may be 0 or less, and else by a stream.
//
// The backend has the request before the stream is made. What it has said by then, and be it the answer, is kept with
// the stream in one commit, where the Store can do that. Where it has said nothing yet, the commit which makes the
// stream takes place while the backend works, and the answer waits for its own alone. That takes nothing from what is
// promised:
//
//   - Nothing is missed. A client that is to come back needs an event id, and the first is shown by follow, once the
//     stream is kept. Whoever drops before, or whose server dies then, has seen nothing and knows no more about the
//     call than somebody whose request never arrived whole.
//   - Nothing is seen twice. Messages wait in early, in their order, until promote hands them to the outlet of the
//     stream, and go there directly from then on.
//   - Nothing runs twice. What has begun is never refused with a status that invites to send it again, as 503 does: if
//     the stream cannot be made, each request is answered, and the answer says that its outcome is not known. A process
//     that dies in between leaves no stream that another one could take over, and no call is ever repeated by a server.
//
// A client that goes away does not end the making of the stream: a disconnect cancels nothing.
func (s *Session) callEarly(w http.ResponseWriter, r *http.Request, x *Exchange, quick time.Duration) *refusal {
	e := newEarly(quick > 0)
	x.sink = e
	if !s.h.run(s.life, x) {
		s.dismiss(x)
		return refusalOf(errNoSession)
	}
	if quick <= 0 {
		e.wait(context.WithoutCancel(r.Context()), keepAfter)
	} else if !e.wait(r.Context(), quick) { // the client knows of nothing to come back to; the request goes on
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

// wait waits until it is decided what the answer is, but not longer than quick. It reports false if ctx ends: then
// there is nobody to answer.
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
