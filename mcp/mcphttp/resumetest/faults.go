package resumetest

import (
	"context"
	"net/http"
	"time"
)

// long is the number of steps of a call that is under way when something happens to its server.
const long = 40

var faultCases = []testCase{
	{
		name:   "replica, call ended",
		rule:   "another replica replays a call that has ended, to its response",
		source: own,
		run: func(r *run) error {
			if r.target.Replica == "" {
				return notRun("no replica is known")
			}
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			c = c.again(2)
			st, err := c.resumeAt(c.session.at(r.target.Replica))
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "replica, call under way",
		rule:   "another replica replays a call that is under way and goes on with it live",
		source: own,
		run: func(r *run) error {
			if r.target.Replica == "" {
				return notRun("no replica is known")
			}
			c, err := r.dropped(2)
			if err != nil {
				return err
			}
			st, err := c.resumeAt(c.session.at(r.target.Replica))
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "replica, foreign session",
		rule:   "another replica refuses an id of another session too",
		source: own,
		run: func(r *run) error {
			if r.target.Replica == "" {
				return notRun("no replica is known")
			}
			theirs, err := r.finished(few)
			if err != nil {
				return err
			}
			mine, err := r.finished(few)
			if err != nil {
				return err
			}
			there := mine.session.at(r.target.Replica)
			c := mine.again(2)
			if _, err := c.resumeAt(there); err != nil {
				return errorf("the own one is not known there: %w", err)
			}
			return there.refused(theirs.ids[0])
		},
	},
	{
		name:   "restart, call ended",
		rule:   "a call that has ended before a restart is replayed after it",
		source: own,
		run: func(r *run) error {
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			if err := r.restart(); err != nil {
				return err
			}
			c = c.again(2)
			st, err := c.resume()
			if err != nil {
				return err
			}
			return c.finish(st)
		},
	},
	{
		name:   "restart, call under way",
		rule:   "a call whose server has died is not waited for for ever: what it had sent is replayed, and it gets a response, if only an error",
		source: own,
		run: func(r *run) error {
			s, err := r.open()
			if err != nil {
				return err
			}
			c, st, err := s.start(long, pause)
			if err != nil {
				return err
			}
			if err := c.until(st, 3); err != nil {
				return err
			}
			st.drop()
			if err := r.restart(); err != nil {
				return err
			}
			c = c.again(1)
			if st, err = c.resume(); err != nil {
				return err
			}
			if err := c.answerIn(st); err != nil {
				return err
			}
			if c.got < 3 {
				return errorf("the response came after step %d, and 3 had been sent", c.got)
			}
			return c.ends(st)
		},
	},
	{
		name:   "restart, session",
		rule:   "a session outlives a restart: the client goes on in it without another initialize",
		source: own,
		run: func(r *run) error {
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			if err := r.restart(); err != nil {
				return err
			}
			_, err = c.session.finished(few)
			return err
		},
	},
	{
		name:   "store fails in the middle",
		rule:   "a store that fails during a call makes nobody miss a message silently: the client gets all of them, or is refused or gets an error as the response",
		source: own,
		run: func(r *run) error {
			return r.withFault(func(fault func(bool) error) error {
				s, err := r.open()
				if err != nil {
					return err
				}
				c, st, err := s.start(long, pause/2)
				if err != nil {
					return err
				}
				if err := c.until(st, 3); err != nil {
					return err
				}
				if err := fault(true); err != nil {
					return err
				}
				time.Sleep(6 * pause)
				st.drop()
				if err := fault(false); err != nil {
					return err
				}
				return c.again(3).allOrRefused()
			})
		},
	},
	{
		name:   "store fails at the end",
		rule:   "a store that fails when a call ends makes nobody miss its response silently: the client gets it, or is refused or gets an error",
		source: own,
		run: func(r *run) error {
			return r.withFault(func(fault func(bool) error) error {
				c, err := r.dropped(2)
				if err != nil {
					return err
				}
				if err := fault(true); err != nil {
					return err
				}
				time.Sleep(few*pause + quiet)
				if err := fault(false); err != nil {
					return err
				}
				return c.allOrRefused()
			})
		},
	},
	{
		name:   "store fails during a resume",
		rule:   "a resume while the store fails is served from memory or answered with a status that says to come back (5xx, 429), and succeeds later; a 4xx would end the client's session",
		source: own,
		run: func(r *run) error {
			return r.withFault(func(fault func(bool) error) error {
				c, err := r.finished(few)
				if err != nil {
					return err
				}
				if err := fault(true); err != nil {
					return err
				}
				c = c.again(2)
				st, err := c.session.getPatiently(c.lastID)
				if err != nil {
					return err
				}
				if st.status >= 400 && st.status < 500 && st.status != http.StatusTooManyRequests {
					return errorf("status %d%s", st.status, st.reason())
				}
				st.drop()
				if err := fault(false); err != nil {
					return err
				}
				if st, err = c.resume(); err != nil {
					return err
				}
				return c.finish(st)
			})
		},
	},
}

// restart restarts the server.
func (r *run) restart() error {
	if r.target.Restart == nil {
		return notRun("it cannot be restarted")
	}
	for _, st := range r.streams {
		st.drop()
	}
	if err := r.target.Restart(r.ctx); err != nil {
		return errorf("restart: %w", err)
	}
	return nil
}

// withFault runs f, which makes the store fail, and sees to it that it works afterwards.
func (r *run) withFault(f func(fault func(bool) error) error) error {
	if r.target.Fault == nil {
		return notRun("its store cannot be made to fail")
	}
	defer func() { _ = r.target.Fault(context.WithoutCancel(r.ctx), false) }()
	return f(func(fails bool) error {
		if err := r.target.Fault(r.ctx, fails); err != nil {
			return errorf("fault: %w", err)
		}
		return nil
	})
}

// allOrRefused resumes until the response has come, once the store works again.
func (c *call) allOrRefused() error {
	for end := time.Now().Add(c.session.run.target.Patience); ; time.Sleep(pause) {
		st, err := c.session.getPatiently(c.lastID)
		if err != nil {
			return err
		}
		switch {
		case st.status >= 500 && time.Now().Before(end):
			st.drop()
			continue
		case st.status >= 400 && st.status < 500:
			return nil // told
		case st.status != http.StatusOK:
			return errorf("status %d%s", st.status, st.reason())
		}
		if err := c.answerIn(st); err != nil {
			return err
		}
		if !c.failed && c.got != c.steps {
			return errorf("the response came after step %d of %d", c.got, c.steps)
		}
		return nil
	}
}
