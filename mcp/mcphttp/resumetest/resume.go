package resumetest

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// many is the number of steps of a replay that is long enough to be cut.
const many = 200

var resumeCases = []testCase{
	{
		name:   "resume, then live",
		rule:   "after a drop in mid-call the client gets what it missed and then what happens, on one response, in order, nothing twice and nothing left out",
		source: specResume,
		run: func(r *run) error {
			c, err := r.dropped(2)
			if err != nil {
				return err
			}
			time.Sleep(2 * pause)
			st, err := c.resume()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "resume after the end",
		rule:   "a call that has ended meanwhile is replayed to its response, and then the response ends",
		source: specEnd,
		run: func(r *run) error {
			c, err := r.dropped(2)
			if err != nil {
				return err
			}
			time.Sleep(few*pause + quiet)
			st, err := c.resume()
			if err != nil {
				return err
			}
			if err := c.finish(st); err != nil {
				return err
			}
			return c.ends(st)
		},
	},
	{
		name:   "resume from each id",
		rule:   "every id that was sent is a place to go on from, and gives exactly what follows it",
		source: specResume,
		run: func(r *run) error {
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			for n := 1; n <= few; n++ {
				again := c.again(n)
				st, err := again.resume()
				if err != nil {
					return err
				}
				if err := again.finish(st); err != nil {
					return errorf("after the id of step %d: %w", n, err)
				}
				st.drop()
			}
			return nil
		},
	},
	{
		name:   "resume at the end",
		rule:   "after the id of the response nothing is left: no message is repeated and the client is not kept waiting",
		source: own,
		run: func(r *run) error {
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			st, err := c.session.getPatiently(c.lastID)
			if err != nil {
				return err
			}
			if st.status >= 500 || st.status == 404 || st.status == 409 {
				return errorf("status %d%s", st.status, st.reason())
			}
			if st.isSSE {
				return c.ends(st)
			}
			return nil
		},
	},
	{
		name: "drop before the first message", since: "2025-11-25",
		rule:   "a connection that breaks after the priming event and before the first message has lost nothing (2025-11-25)",
		source: specPriming,
		run: func(r *run) error {
			c, err := r.primed()
			if err != nil {
				return err
			}
			time.Sleep(2 * pause)
			st, err := c.resume()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "drop before the first replayed event",
		rule:   "a resume that breaks before anything has come can be done again with the same id",
		source: own,
		run: func(r *run) error {
			c, err := r.dropped(2)
			if err != nil {
				return err
			}
			for range 3 {
				st, err := c.resume()
				if err != nil {
					return err
				}
				st.drop()
				time.Sleep(pause / 2)
			}
			st, err := c.resume()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "drop during replay",
		rule:   "a replay that breaks goes on from the newest id, as often as it takes",
		source: specResume,
		run: func(r *run) error {
			c, err := r.finished(many)
			if err != nil {
				return err
			}
			c = c.again(1)
			for at := 30; at < many; at += 50 {
				st, err := c.resume()
				if err != nil {
					return err
				}
				if err := c.until(st, at); err != nil {
					return err
				}
				st.drop()
			}
			st, err := c.resume()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "drop again and again",
		rule:   "a call whose connection breaks after every step shows each of them once",
		source: specResume,
		run: func(r *run) error {
			c, err := r.dropped(1)
			if err != nil {
				return err
			}
			for n := 2; n <= few; n++ {
				st, err := c.resume()
				if err != nil {
					return err
				}
				if err := c.until(st, n); err != nil {
					return err
				}
				st.drop()
			}
			st, err := c.resume()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "only the stream that was cut",
		rule:   "of calls that were cut together each is resumed with its own messages and no other's (the server MUST NOT replay those of another stream)",
		source: specStream,
		run:    func(r *run) error { return r.together(8) },
	},
	{
		name:   "fresh GET",
		rule:   "a GET without an id is a new stream: nothing of the calls comes on it, neither of those that have ended nor of those that were cut, which lose nothing to it",
		source: specStream,
		run: func(r *run) error {
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			cut, err := c.session.dropped(2)
			if err != nil {
				return err
			}
			st, err := c.session.get("")
			if err != nil {
				return err
			}
			if st.status == 405 {
				return notApplicable("the server has no GET stream")
			}
			if st.status != 200 {
				return errorf("status %d%s", st.status, st.reason())
			}
			for end := time.Now().Add(few*pause + quiet); time.Now().Before(end); {
				e, err := st.next(time.Until(end))
				if errors.Is(err, errNothing) {
					break
				}
				if err != nil {
					return errorf("the stream ended: %w", err)
				}
				if isOfCall(e.data) {
					return errorf("a message of a call came: %.160q", e.data)
				}
			}
			resumed, err := cut.resume()
			if err != nil {
				return err
			}
			return cut.finish(resumed)
		},
	},
	{
		name:   "a client that does not read",
		rule:   "a client that never reads its response holds up nobody else's call",
		source: own,
		run: func(r *run) error {
			s, err := r.open()
			if err != nil {
				return err
			}
			// More than the network takes: the server repeats the token in each message.
			_, _, err = s.startWith(strings.Repeat("x", 16<<10), stalledSteps, 0)
			if err != nil {
				return err
			}
			for range 3 {
				if _, err := r.finished(few); err != nil {
					return errorf("another call: %w", err)
				}
			}
			return nil
		},
	},
}

// isOfCall reports whether a message is progress or a response, and not about the session as a whole.
func isOfCall(data []byte) bool {
	var m struct{ Method string }
	return len(data) > 0 && (json.Unmarshal(data, &m) != nil || m.Method == "" || m.Method == "notifications/progress")
}

// stalledSteps is the number of steps of a call whose response is not read: 16 MB.
const stalledSteps = 1000

// together cuts n calls of one session and resumes them.
func (r *run) together(n int) error {
	s, err := r.open()
	if err != nil {
		return err
	}
	calls := make([]*call, n)
	for i := range calls {
		c, st, err := s.start(few, pause)
		if err != nil {
			return err
		}
		if err := c.until(st, 1); err != nil {
			return err
		}
		st.drop()
		calls[i] = c
	}
	streams := make([]*stream, n)
	for i, c := range calls {
		if streams[i], err = c.resume(); err != nil {
			return err
		}
	}
	errs := make([]error, n)
	var tasks sync.WaitGroup
	for i, c := range calls {
		tasks.Go(func() { errs[i] = c.finish(streams[i]) })
	}
	tasks.Wait()
	return errors.Join(errs...)
}

// leaks reads for a moment and returns a message that must not have been sent.
func (st *stream) leaks() error {
	for {
		e, err := st.next(quiet)
		switch {
		case errors.Is(err, errNothing), errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(e.data) > 0:
			return errorf("a message came: %.160q", e.data)
		}
	}
}
