package resumetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// call is a call of the tool and its received messages.
type call struct {
	session *session
	id      int
	steps   int
	token   string // its progress token
	// got is the number of received steps, ids are their event ids, and lastID is the newest of these.
	got    int
	ids    []string
	lastID string
	// answered is true when the response has come, and failed if that was an error.
	answered, failed bool
	answer, answerID string
}

// start calls the tool and returns when the header of the response has arrived.
func (s *session) start(steps int, pause time.Duration) (*call, *stream, error) {
	return s.startWith("", steps, pause)
}

// startWith is start with a progress token that ends with pad.
func (s *session) startWith(pad string, steps int, pause time.Duration) (*call, *stream, error) {
	s.calls++
	c := &call{session: s, id: s.calls, steps: steps, token: fmt.Sprintf("token-%d%s", s.calls, pad)}
	st, err := s.post(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": "tools/call", "params": map[string]any{
		"name":      s.run.target.Tool.Name,
		"arguments": s.run.target.Tool.Arguments(steps, pause),
		"_meta":     map[string]any{"progressToken": c.token},
	}})
	if err != nil {
		return nil, nil, err
	}
	if st.status != http.StatusOK || !st.isSSE {
		return nil, nil, errorf("tools/call: status %d, Content-Type %q", st.status, st.header.Get("Content-Type"))
	}
	return c, st, nil
}

// take takes an event of the call's stream: the next step or the response. Other messages than progress and responses
// are let through.
func (c *call) take(e event) error {
	if e.id != "" {
		c.lastID = e.id
	}
	if len(e.data) == 0 {
		return nil
	}
	var m struct {
		ID     *json.RawMessage
		Method string
		Params struct {
			ProgressToken string
			Progress      float64
		}
		Result, Error json.RawMessage
	}
	if err := json.Unmarshal(e.data, &m); err != nil {
		return errorf("not JSON: %.100q", e.data)
	}
	switch {
	case m.Method == "notifications/progress":
		if m.Params.ProgressToken != c.token {
			return errorf("a message of another stream came: that of %.20s on the stream of %.20s",
				m.Params.ProgressToken, c.token)
		}
		if c.answered {
			return errorf("step %v came after the response", m.Params.Progress)
		}
		if int(m.Params.Progress) != c.got+1 {
			return errorf("step %v came where %d was next", m.Params.Progress, c.got+1)
		}
		c.got++
		c.ids = append(c.ids, e.id)
	case m.Method == "" && m.ID != nil:
		if string(*m.ID) != fmt.Sprint(c.id) {
			return errorf("the response to %s came on the stream of %d", *m.ID, c.id)
		}
		if c.answered {
			return errorf("the response came twice")
		}
		c.answered, c.failed, c.answer, c.answerID = true, m.Error != nil, string(e.data), e.id
	}
	return nil
}

// until reads the call's stream until n steps have come.
func (c *call) until(st *stream, n int) error {
	for c.got < n && !c.answered {
		e, err := st.next(c.session.run.target.Patience)
		if err == nil {
			err = c.take(e)
		}
		if err != nil {
			return errorf("after step %d of %d: %w", c.got, c.steps, err)
		}
	}
	if c.got < n {
		return errorf("the response came after step %d of %d: %.200s", c.got, c.steps, c.answer)
	}
	return nil
}

// finish reads the call's stream up to its response, which must be a result after all steps.
func (c *call) finish(st *stream) error {
	if err := c.answerIn(st); err != nil {
		return err
	}
	if c.failed {
		return errorf("the response is an error: %.200s", c.answer)
	}
	if c.got != c.steps {
		return errorf("the response came after step %d of %d", c.got, c.steps)
	}
	return nil
}

// answerIn reads the call's stream up to its response.
func (c *call) answerIn(st *stream) error {
	for !c.answered {
		e, err := st.next(c.session.run.target.Patience)
		if err == nil {
			err = c.take(e)
		}
		if err != nil {
			return errorf("after step %d of %d: %w", c.got, c.steps, err)
		}
	}
	return nil
}

// ends checks that nothing but the end of the response follows.
func (c *call) ends(st *stream) error {
	for {
		e, err := st.next(c.session.run.target.Patience)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errorf("the response was not ended: %w", err)
		}
		if err := c.take(e); err != nil {
			return err
		}
	}
}

// resume continues the call's stream after the newest event, and requires that the server serves it. If the server
// answers 409 because it still considers the previous connection alive, resume retries for a while. The case "takeover"
// alone tests that answer.
func (c *call) resume() (*stream, error) { return c.resumeAt(c.session) }

func (c *call) resumeAt(s *session) (*stream, error) {
	if c.lastID == "" {
		return nil, errorf("no event had an id")
	}
	st, err := s.getPatiently(c.lastID)
	return c.served(st, err)
}

// takeOver is resume for servers that must not refuse because of the previous connection.
func (c *call) takeOver() (*stream, error) {
	st, err := c.session.get(c.lastID)
	return c.served(st, err)
}

func (c *call) served(st *stream, err error) (*stream, error) {
	if err != nil {
		return nil, errorf("resume: %w", err)
	}
	if st.status != http.StatusOK || !st.isSSE {
		return nil, errorf("resume after step %d: status %d%s", c.got, st.status, st.reason())
	}
	return st, nil
}

// getPatiently is get, again while the answer is 409.
func (s *session) getPatiently(lastID string) (*stream, error) {
	for end := time.Now().Add(s.run.target.Patience); ; time.Sleep(pause) {
		st, err := s.get(lastID)
		if err != nil || st.status != http.StatusConflict || time.Now().After(end) {
			return st, err
		}
		st.drop()
	}
}

// reason returns the beginning of a response that is not a stream.
func (st *stream) reason() string {
	if st.isSSE {
		return ""
	}
	e, err := st.next(time.Second)
	if err != nil || len(e.data) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.160q", e.data)
}

// again is the call as if only n steps had come.
func (c *call) again(n int) *call {
	return &call{session: c.session, id: c.id, steps: c.steps, token: c.token, got: n, lastID: c.ids[n-1]}
}
