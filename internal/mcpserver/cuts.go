package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcptask"
)

// On version 2026-07-28 a server takes a disconnect for a cancellation: a connection that breaks and a person who stops
// the call look the same. The run is cancelled, at once or after Options.CallGrace, and the next answer to the same
// sender names that run. A run that is still going on then stays: the sender knows it and can cancel it.

const (
	// maxCuts is how many runs of a sender are remembered, the newest ones, and maxCutSenders of how many senders.
	maxCuts, maxCutSenders = 8, 10_000
	// cutAge is how long a run is remembered.
	cutAge = time.Hour
)

// sender is who gets the report of a cut.
type sender struct {
	tenant    reprise.Tenant
	principal string
}

// cut is a run whose call was cut off.
type cut struct {
	id    string
	at    time.Time
	timer *time.Timer // of the grace
}

// cuts are the runs that their senders were not told of yet.
type cuts struct {
	mu      sync.Mutex
	of      map[sender][]*cut
	pending map[*cut]func() // what cancels those in their grace
	closed  bool
	ending  sync.WaitGroup
}

// add remembers a run. With a grace, cancel is called when that is over, unless the sender got the report before.
// Without one, or if it returns false, the caller cancels the run.
func (c *cuts) add(who sender, id string, grace time.Duration, cancel func()) (later bool) {
	one := &cut{id: id, at: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.of == nil {
		c.of, c.pending = map[sender][]*cut{}, map[*cut]func(){}
	}
	if _, known := c.of[who]; !known && len(c.of) >= maxCutSenders {
		for other := range c.of {
			delete(c.of, other)
			break
		}
	}
	list := append(c.of[who], one)
	c.of[who] = list[max(0, len(list)-maxCuts):]
	if grace == 0 {
		return false
	}
	c.pending[one] = cancel
	one.timer = time.AfterFunc(grace, func() { c.cancel(one) })
	return true
}

// cancel cancels a run, unless that was done, or the sender got the report.
func (c *cuts) cancel(one *cut) {
	c.mu.Lock()
	cancel := c.pending[one]
	delete(c.pending, one)
	if cancel != nil {
		c.ending.Add(1)
		defer c.ending.Done()
	}
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// told is a run that is reported to a sender. stays is true if it was not cancelled because of that.
type told struct {
	*cut
	stays bool
}

// take returns the runs to tell a sender of, once.
func (c *cuts) take(who sender) (list []told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.of[who] {
		_, stays := c.pending[one]
		if stays {
			delete(c.pending, one)
			one.timer.Stop()
		}
		if stays || time.Since(one.at) < cutAge {
			list = append(list, told{one, stays})
		}
	}
	delete(c.of, who)
	return list
}

// close cancels the runs in their grace, since no sender is left.
func (c *cuts) close() {
	c.mu.Lock()
	c.closed = true
	for one := range c.pending {
		one.timer.Stop()
		c.ending.Go(func() { c.cancel(one) })
	}
	c.mu.Unlock()
	c.ending.Wait()
}

// leave cancels a run whose call has ended without an answer: in a while if the call may have been cut off. A stopping
// server handles its runs itself, and so does the server that has taken over the call of this one.
func (s *Server) leave(ctx context.Context, c caller, id string) {
	if cause := context.Cause(ctx); errors.Is(cause, reprise.ErrClosed) || errors.Is(cause, reprise.ErrFenced) {
		return
	}
	cancel := func() { s.abandon(ctx, c.tenant, id) }
	if x := mcptask.Exchange(ctx); x == nil || x.Session != nil { // the client has said that it cancels
		cancel()
		return
	}
	if !s.cuts.add(sender{c.tenant, c.who.Name}, id, s.opts.CallGrace, cancel) {
		cancel()
	}
}

// tellCuts is middleware that adds to the result of a tool which runs of the sender were cut off before.
func (s *Server) tellCuts(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		answer, ok := result.(*mcp.CallToolResult)
		if !ok || err != nil || answer == nil || ctx.Err() != nil {
			return result, err
		}
		tenant, name, identifyErr := s.opts.Identify(ctx, req)
		if identifyErr != nil { // the tool has refused the sender
			return result, nil //nolint:nilerr // nobody is told
		}
		who := sender{tenant, name}
		for i, one := range s.cuts.take(who) {
			if i == 0 {
				answer.Content = slices.Clone(answer.Content)
			}
			answer.Content = append(answer.Content, &mcp.TextContent{Text: s.cutText(ctx, who, one)})
		}
		return answer, nil
	}
}

// cutText reports a run to a sender. It is a content of its own, after the answer, which may be JSON.
func (s *Server) cutText(ctx context.Context, who sender, one told) string {
	became := "was cancelled"
	x, err := s.host.Show(ctx, who.tenant, one.id)
	switch {
	case err == nil && x.Outcome != "":
		became = "has ended (" + string(x.Outcome) + ")"
	case one.stays:
		became = "still runs, and cancel_execution cancels it"
	}
	return fmt.Sprintf("[a call of execute_code was cut off %v ago: its run %s %s; get_execution_output shows its output]",
		time.Since(one.at).Round(time.Second), one.id, became)
}
