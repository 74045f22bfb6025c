package merge

import (
	"sync"

	"reprise/mcp/mcphttp"
)

// request is a request that a member has not answered yet.
type request struct {
	to     *session
	method string
	answer chan answer // of a request of our own, else nil
}

// answer is what a request of our own came to.
type answer struct {
	m   mcphttp.Message
	err error
}

// question is a request of a member that the client has not answered yet.
type question struct {
	from *session
	id   mcphttp.ID // at the member
}

// ownIDs is where the ids of our own requests begin. Those of the gateway stay below.
const ownIDs = int64(1) << 50

// requestTable holds what has no answer yet, in both directions. Its methods are safe for concurrent use.
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

// take removes a request and returns it, nil if there is none.
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

// end removes what a session has not answered and what it has asked, and returns the former.
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
