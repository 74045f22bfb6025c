package resumetest

import (
	"time"
)

const (
	// few steps with a short pause are used in most cases: the call takes about half a second.
	few   = 8
	pause = 60 * time.Millisecond
	// quiet is the time for which a case waits for a message that must not arrive.
	quiet = 400 * time.Millisecond
)

var plainCases = []testCase{
	{
		name:   "uncut",
		rule:   "a call that is not cut shows each step and then its response, in order and once, each message with an id that is unique in its session",
		source: specIDs,
		run: func(r *run) error {
			s, err := r.open()
			if err != nil {
				return err
			}
			seen := map[string]bool{}
			for range 2 {
				c, st, err := s.start(few, 0)
				if err != nil {
					return err
				}
				if err := c.finish(st); err != nil {
					return err
				}
				for _, id := range append(c.ids, c.answerID) {
					if id == "" || seen[id] {
						return errorf("the event id %q is missing or was used before", id)
					}
					seen[id] = true
				}
				if err := c.ends(st); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		name: "priming event", since: "2025-11-25",
		rule:   "the stream of a POST begins at once with an event that has an id and no data (2025-11-25)",
		source: specPriming,
		run: func(r *run) error {
			_, err := r.primed()
			return err
		},
	},
	{
		name: "no priming event before it was invented", until: "2025-06-18",
		rule:   "clients of older versions, which do not know events without data, are sent none",
		source: own,
		run: func(r *run) error {
			s, err := r.open()
			if err != nil {
				return err
			}
			c, st, err := s.start(few, 0)
			if err != nil {
				return err
			}
			for !c.answered {
				e, err := st.next(r.target.Patience)
				if err != nil {
					return err
				}
				if len(e.data) == 0 {
					return errorf("event %q has no data", e.id)
				}
				if err := c.take(e); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		name:   "a disconnect cancels nothing",
		rule:   "a client that goes away has not cancelled its call (all three versions): the call goes on, and its result is there when the client comes back",
		source: specDisconnect,
		run: func(r *run) error {
			c, err := r.dropped(1)
			if err != nil {
				return err
			}
			time.Sleep(few*pause + quiet)
			st, err := c.resume()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
}

// dropped is a call whose connection is dropped after so many steps.
func (r *run) dropped(after int) (*call, error) {
	s, err := r.open()
	if err != nil {
		return nil, err
	}
	return s.dropped(after)
}

func (s *session) dropped(after int) (*call, error) {
	c, st, err := s.start(few, pause)
	if err != nil {
		return nil, err
	}
	if err := c.until(st, after); err != nil {
		return nil, err
	}
	st.drop()
	return c, nil
}

// primed is a call of which only the priming event has come.
func (r *run) primed() (*call, error) {
	s, err := r.open()
	if err != nil {
		return nil, err
	}
	c, st, err := s.start(few, pause)
	if err != nil {
		return nil, err
	}
	e, err := st.next(r.target.Patience)
	if err != nil {
		return nil, err
	}
	if e.id == "" || len(e.data) > 0 {
		return nil, errorf("the first event has the id %q and %d bytes of data", e.id, len(e.data))
	}
	st.drop()
	return c, c.take(e)
}

// finished is a call that has come to its end in a session of its own.
func (r *run) finished(steps int) (*call, error) {
	s, err := r.open()
	if err != nil {
		return nil, err
	}
	return s.finished(steps)
}

func (s *session) finished(steps int) (*call, error) {
	c, st, err := s.start(steps, 0)
	if err != nil {
		return nil, err
	}
	if err := c.finish(st); err != nil {
		return nil, err
	}
	st.drop()
	return c, nil
}
