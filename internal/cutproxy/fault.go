package cutproxy

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a Fault.
type Kind string

// The kinds. The first five pass the connection on to the target at first.
const (
	// FIN ends the connection as a server does that closes it.
	FIN Kind = "fin"
	// RST resets the connection, as a middlebox does: unread data are lost.
	RST Kind = "rst"
	// Stall forwards nothing more and keeps the connection open until the client closes it.
	Stall Kind = "stall"
	// Half closes only the direction to the client. Data of the client are still accepted.
	Half Kind = "half"
	// Slow passes the rest on a byte at a time.
	Slow Kind = "slow"
	// Foreign inserts events of another source before and among those of the server: "event: ping", or Fault.Text.
	Foreign Kind = "foreign"
	// Refuse resets the connection at once.
	Refuse Kind = "refuse"
	// Status answers with a status and a page of HTML, like a gateway whose server is down.
	Status Kind = "status"
	// Redirect answers with the status 302.
	Redirect Kind = "redirect"
	// Page answers 200 with a page of HTML, as a login page does.
	Page Kind = "page"
	// Wrong answers as a server does that speaks no HTTP.
	Wrong Kind = "wrong"
)

// Fault is a fault of one connection.
type Fault struct {
	Kind Kind
	// After is the number of bytes of the answers before FIN, RST, Stall, Half and Slow.
	After int64
	// Delay, if not 0, is the time after which FIN and RST happen, in place of After. It counts from the beginning of
	// the connection, or from the time when the client sends Options.On.
	Delay time.Duration
	// Pace is the time between two bytes of Slow. Default: 1 ms.
	Pace time.Duration
	// Code is the status of Status, RetryAfter its header of that name, "" for none.
	Code       int
	RetryAfter string
	// Text is what Foreign inserts: whole blocks. Default: several, without an id.
	Text string
	// Location is where Redirect leads.
	Location string
}

// Plan returns the fault after n others, from 0 on, or nil to forward the connection unchanged. A Plan is called by one
// goroutine at a time, when a connection is opened and when its fault is due. If it returns nil the second time, the
// connection is forwarded.
type Plan func(n int) *Fault

// Every is the Plan that does the same to all connections.
func Every(f Fault) Plan { return func(int) *Fault { return &f } }

// First is the Plan that does the same n times.
func First(n int, f Fault) Plan {
	return func(i int) *Fault {
		if i >= n {
			return nil
		}
		return &f
	}
}

// cut is one --cut: a fault, so many times.
type cut struct {
	fault Fault
	most  int64         // After is random up to it, 0 for exactly After
	later time.Duration // the same for Delay
	step  int64         // After grows by it each time
	times int           // negative: without end
}

// ParsePlan makes a Plan of texts, each of which is
//
//	KIND[=VALUE][@AT][*TIMES]
//
// AT is a number of bytes ("600"), a range in which one is chosen at random each time ("600-12000"), the first of a
// row ("0+7" is 0, 7, 14, ...), or a time ("2s", "1s-3s"). TIMES is how often it is done; default: once. A "*" without
// a number is for all that come. The texts take their turns, and when all are through, connections are passed on; so
// is a connection that ends before its fault is due, which does not count. A status is the kind "503", its VALUE the
// header Retry-After: "503=7". The VALUE of slow is its pace, that of redirect the URL.
func ParsePlan(texts []string, random *rand.Rand) (Plan, error) {
	cuts := make([]cut, len(texts))
	for i, text := range texts {
		c, err := parseCut(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		cuts[i] = c
	}
	return func(n int) *Fault {
		for _, c := range cuts {
			if c.times < 0 || n < c.times {
				return c.at(n, random)
			}
			n -= c.times
		}
		return nil
	}, nil
}

// at returns fault number n of c.
func (c *cut) at(n int, random *rand.Rand) *Fault {
	f := c.fault
	f.After += int64(n) * c.step
	if c.most > f.After {
		f.After += random.Int64N(c.most - f.After + 1)
	}
	if c.later > f.Delay {
		f.Delay += time.Duration(random.Int64N(int64(c.later-f.Delay) + 1))
	}
	return &f
}

func parseCut(text string) (c cut, err error) {
	c.times = 1
	rest, times, many := cutLast(text, "*")
	switch {
	case many && times == "":
		c.times = -1
	case many:
		if c.times, err = strconv.Atoi(times); err != nil || c.times < 1 {
			return c, fmt.Errorf("%q is not a number of times", times)
		}
	}
	rest, at, hasAt := cutLast(rest, "@")
	kind, value, hasValue := strings.Cut(rest, "=")
	if err := c.fault.parseKind(kind, value, hasValue); err != nil || !hasAt {
		return c, err
	}
	switch c.fault.Kind {
	case FIN, RST, Stall, Half, Slow:
		return c, c.parseAt(at)
	}
	return c, fmt.Errorf("%s has no place in the answer", kind)
}

// cutLast is strings.Cut at the last sep.
func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

func (f *Fault) parseKind(kind, value string, hasValue bool) (err error) {
	f.Kind = Kind(kind)
	switch f.Kind {
	case FIN, RST, Stall, Half, Foreign, Refuse, Page, Wrong:
		if hasValue {
			err = fmt.Errorf("%s has no value", kind)
		}
		return err
	case Slow:
		if hasValue {
			f.Pace, err = time.ParseDuration(value)
		}
		return err
	case Redirect:
		f.Location = value
		if u, err := url.Parse(value); err != nil || u.Host == "" {
			return fmt.Errorf("%q is no URL", value)
		}
		return nil
	}
	f.Kind, f.RetryAfter = Status, value
	if f.Code, err = strconv.Atoi(kind); err != nil || f.Code < 200 || f.Code > 599 {
		return fmt.Errorf("%q is neither a kind of fault nor a status", kind)
	}
	return nil
}

func (c *cut) parseAt(at string) (err error) {
	first, step, isRow := strings.Cut(at, "+")
	first, last, isRange := strings.Cut(first, "-")
	if c.fault.After, err = strconv.ParseInt(first, 10, 64); err == nil {
		if isRange {
			c.most, err = strconv.ParseInt(last, 10, 64)
		}
		if isRow && err == nil {
			c.step, err = strconv.ParseInt(step, 10, 64)
		}
	} else if c.fault.Delay, err = time.ParseDuration(first); err == nil && isRange {
		c.later, err = time.ParseDuration(last)
	}
	isTime := c.fault.Delay > 0
	if isTime && (isRow || c.fault.Kind != FIN && c.fault.Kind != RST) {
		return fmt.Errorf("%s cannot be timed as %q", c.fault.Kind, at)
	}
	if err != nil || c.fault.After < 0 || c.fault.Delay < 0 || isRange && max(c.most, int64(c.later)) == 0 {
		return fmt.Errorf("%q is not a position: bytes, a range, a row or a time", at)
	}
	return nil
}
