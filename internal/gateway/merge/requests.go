package merge

import (
	"sync"

	"reprise/mcp/mcphttp"
)

// request is an unanswered request to a member.
type request struct {
	to     *session
	method string
	answer chan answer // of a request of our own, else nil
}

// answer is the result of a request of our own.
type answer struct {
	m   mcphttp.Message
	err error
}

// question is a request of a member that the client has not answered.
type question struct {
	from *session
	id   mcphttp.ID // at the member
}

// ownIDs is the first id of our own requests. The ids of the gateway are lower.
const ownIDs = int64(1) << 50

// requestTable holds the unanswered requests in both directions. Its methods are safe for concurrent use.
type requestTable struct {
	mu        sync.Mutex
	last      int64
	requests  map[int64]*request
	asked     int64
	questions map[int64]question
}

// add enters a request under the id that the gateway gave it.
func (t *requestTable) add(id int64, r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == nil {
		t.requests = map[int64]*request{}
	}
	t.requests[id] = r
}

// addOwn enters a request of our own and returns its id.
func (t *requestTable) addOwn(r *request) int64 {
	t.mu.Lock()
	t.last++
	id := ownIDs + t.last
	t.mu.Unlock()
	t.add(id, r)
	return id
}

func (t *requestTable) find(id int64) *request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests[id]
}

// take removes and returns a request, or returns nil if there is none.
func (t *requestTable) take(id int64) *request {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.requests[id]
	delete(t.requests, id)
	return r
}

// only returns the id of the gateway's request to a session if there is just one, else 0.
func (t *requestTable) only(s *session) (id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for other, r := range t.requests {
		if r.to != s || r.answer != nil {
			continue
		}
		if id != 0 {
			return 0
		}
		id = other
	}
	return id
}

// ask enters a question and returns the id under which the client is asked.
func (t *requestTable) ask(q question) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.questions == nil {
		t.questions = map[int64]question{}
	}
	t.asked++
	t.questions[t.asked] = q
	return t.asked
}

// answered removes a question and returns it.
func (t *requestTable) answered(id int64) (question, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q, ok := t.questions[id]
	delete(t.questions, id)
	return q, ok
}

// end removes the unanswered requests to and from a session, and returns the former.
func (t *requestTable) end(s *session) map[int64]*request {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := map[int64]*request{}
	for id, r := range t.requests {
		if r.to == s {
			open[id] = r
			delete(t.requests, id)
		}
	}
	for id, q := range t.questions {
		if q.from == s {
			delete(t.questions, id)
		}
	}
	return open
}
