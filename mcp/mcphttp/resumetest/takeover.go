package resumetest

import (
	"errors"
	"time"
)

var takeoverCases = []testCase{
	{
		name:   "takeover",
		rule:   "a client whose old connection only seems to be alive resumes on a new one at once: it is not refused (409), and misses nothing",
		source: own,
		run: func(r *run) error {
			c, _, err := r.halfOpen()
			if err != nil {
				return err
			}
			st, err := c.takeOver()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "takeover ends the old response",
		rule:   "a message is sent on one connection only: the old response gets nothing that comes after the takeover, and ends",
		source: specOne,
		run: func(r *run) error {
			c, old, err := r.halfOpen()
			if err != nil {
				return err
			}
			onOld := *c
			st, err := c.takeOver()
			if err != nil {
				return err
			}
			if err := c.until(st, c.got+1); err != nil {
				return err
			}
			taken := c.got
			if err := c.finish(st); err != nil {
				return err
			}
			for {
				e, err := old.next(r.target.Patience)
				if errors.Is(err, errNothing) {
					return errorf("the old response has not ended: %w", err)
				}
				if err != nil {
					return nil
				}
				if err := onOld.take(e); err != nil {
					return err
				}
				if onOld.got > taken || onOld.answered {
					return errorf("what came after the takeover came on the old response too, up to step %d", onOld.got)
				}
			}
		},
	},
	{
		name:   "takeover of a resumed response",
		rule:   "a response that was a resume itself is taken over on a new connection at once too, however often",
		source: own,
		run: func(r *run) error {
			c, err := r.dropped(1)
			if err != nil {
				return err
			}
			if _, err := c.resume(); err != nil {
				return err
			}
			for range 4 {
				if _, err = c.takeOver(); err != nil {
					return err
				}
				time.Sleep(pause / 4)
			}
			st, err := c.takeOver()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "two GET streams",
		rule:   "a GET stream whose old connection only seems to be alive is opened again at once (not refused with 409)",
		source: own,
		run: func(r *run) error {
			s, err := r.open()
			if err != nil {
				return err
			}
			for i := range 3 {
				st, err := s.get("")
				if err != nil {
					return errorf("GET %d: %w", i+1, err)
				}
				if st.status == 405 {
					return notApplicable("the server has no GET stream")
				}
				if st.status != 200 {
					return errorf("GET %d: status %d%s", i+1, st.status, st.reason())
				}
			}
			return nil
		},
	},
}

// halfOpen is a call whose first two steps have come and whose connection is still there.
func (r *run) halfOpen() (*call, *stream, error) {
	s, err := r.open()
	if err != nil {
		return nil, nil, err
	}
	c, st, err := s.start(few, pause)
	if err != nil {
		return nil, nil, err
	}
	return c, st, c.until(st, 2)
}
