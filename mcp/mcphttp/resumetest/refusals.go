package resumetest

import (
	"net/http"
	"strings"
	"time"
)

var refusalCases = []testCase{
	{
		name:   "unknown id",
		rule:   "an id that the server never gave is refused with 4xx: not served as if nothing was missed, not 404, which would say that the session is gone, and no 5xx",
		source: own,
		run: func(r *run) error {
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			long := strings.Repeat("x", 3000)
			for _, id := range []string{
				"x", "0", "-1", "999999", "_", "a_b_c", "%00", "../../etc/passwd", long, "x" + c.ids[3],
				c.ids[3] + "!", "unknown_3", "99999999999999999999_0",
			} {
				if err := c.session.refused(id); err != nil {
					return errorf("id %.40q: %w", id, err)
				}
			}
			return nil
		},
	},
	{
		name:   "foreign session",
		rule:   "an id of another session is refused like one that was never given, and nobody gets the other's messages with it",
		source: own,
		run: func(r *run) error {
			theirs, err := r.finished(few)
			if err != nil {
				return err
			}
			mine, err := r.finished(few)
			if err != nil {
				return err
			}
			for _, id := range []string{theirs.ids[0], theirs.ids[few-1], theirs.lastID} {
				if err := mine.session.refused(id); err != nil {
					return errorf("id %q: %w", id, err)
				}
			}
			return nil
		},
	},
	{
		name: "foreign session, call under way",
		rule: "an id of a call that is under way in another session is refused too, " +
			"and that call loses nothing by it",
		source: own,
		run: func(r *run) error {
			theirs, err := r.dropped(2)
			if err != nil {
				return err
			}
			mine, err := r.open()
			if err != nil {
				return err
			}
			if err := mine.refused(theirs.lastID); err != nil {
				return err
			}
			st, err := theirs.resume()
			if err != nil {
				return err
			}
			return theirs.finish(st)
		},
	},
	{
		name:   "no session",
		rule:   "an id without a session, or with one that there is not, gives no message: 4xx, and 404 for a session that there is not",
		source: specSession,
		run: func(r *run) error {
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			none := *c.session
			none.id = ""
			if err := none.refused(c.ids[0]); err != nil {
				return errorf("without a session: %w", err)
			}
			none.id = c.session.id[:len(c.session.id)-1] + "x"
			if none.id == c.session.id {
				none.id += "y"
			}
			return none.gone(c.ids[0])
		},
	},
	{
		name:   "terminated session",
		rule:   "a session that was ended with DELETE is gone: 404 for whoever resumes in it, and no message of it",
		source: specSession,
		run: func(r *run) error {
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			st, err := c.session.send(http.MethodDelete, "", nil)
			if err != nil {
				return err
			}
			if st.status == http.StatusMethodNotAllowed {
				return notApplicable("clients may not end sessions")
			}
			if st.status >= 300 {
				return errorf("DELETE: status %d", st.status)
			}
			return c.session.gone(c.ids[0])
		},
	},
	{
		name:   "foreign principal",
		rule:   "another principal does not get into a session, even with its id and those of its events",
		source: specPrincipal,
		run: func(r *run) error {
			if r.target.Other == nil {
				return notRun("no other principal is known")
			}
			c, err := r.finished(few)
			if err != nil {
				return err
			}
			other := *c.session
			other.header = r.target.Other
			st, err := other.get(c.ids[0])
			if err != nil {
				return err
			}
			return st.refusal()
		},
	},
	{
		name:   "purged",
		rule:   "who asks for what is not kept any more is told so, with 4xx and no message: no gap that is not announced",
		source: own,
		run: func(r *run) error {
			if r.target.Kept == 0 {
				return notRun("how much the server keeps is not known")
			}
			c, err := r.purged()
			if err != nil {
				return err
			}
			return c.session.refused(c.ids[0])
		},
	},
	{
		name:   "after what was purged",
		rule:   "after a refusal of what is not kept any more, what is still kept can be had, and the session goes on",
		source: own,
		run: func(r *run) error {
			if r.target.Kept == 0 {
				return notRun("how much the server keeps is not known")
			}
			c, err := r.purged()
			if err != nil {
				return err
			}
			late := c.again(len(c.ids) - r.target.Kept/4)
			st, err := late.resume()
			if err != nil {
				return err
			}
			if err := late.finish(st); err != nil {
				return err
			}
			_, err = c.session.finished(few)
			return err
		},
	},
}

// purged returns a call that has sent twice as many messages as the server keeps. It sends slowly enough for a reader,
// unless that takes more than some seconds.
func (r *run) purged() (*call, error) {
	s, err := r.open()
	if err != nil {
		return nil, err
	}
	slow := time.Duration(0)
	if r.target.Kept <= 2000 {
		slow = time.Millisecond
	}
	c, st, err := s.start(2*r.target.Kept, slow)
	if err != nil {
		return nil, err
	}
	defer st.drop()
	return c, c.finish(st)
}

// refused checks that id is refused with 4xx other than 404, and that nothing is sent.
func (s *session) refused(id string) error {
	st, err := s.get(id)
	if err != nil {
		return err
	}
	defer st.drop()
	if st.status == http.StatusNotFound && s.id != "" {
		return errorf("status 404, which says that the session is gone")
	}
	return st.refusal()
}

// gone checks that the session is answered with 404, and that nothing is sent.
func (s *session) gone(id string) error {
	st, err := s.get(id)
	if err != nil {
		return err
	}
	defer st.drop()
	if err := st.refusal(); err != nil {
		return err
	}
	if st.status != http.StatusNotFound {
		return errorf("status %d, not 404", st.status)
	}
	return nil
}

// refusal checks that the response is a 4xx.
func (st *stream) refusal() error {
	if st.status >= 400 && st.status < 500 {
		return nil
	}
	if st.isSSE {
		if err := st.leaks(); err != nil {
			return errorf("status %d: %w", st.status, err)
		}
	}
	return errorf("status %d%s", st.status, st.reason())
}
