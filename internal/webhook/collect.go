package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/internal/identity"
)

const (
	executionNamespace = "execution:"
	labelSession       = "session"
	// saveEvery is how often positions that moved without a message are saved.
	saveEvery = 10 * time.Second
	// maxBatch bounds the messages appended together, listPage the streams of one list page.
	maxBatch = 100
	listPage = 100
)

// covers reports whether the hook covers a stream.
func (h *Hook) covers(info *reprise.StreamInfo) bool {
	switch {
	case h.Source == Executions:
		return strings.HasPrefix(info.Config.Labels[labelSession], h.Prefix)
	case h.Stream != "":
		return info.Key.Name == h.Stream
	}
	return strings.HasPrefix(info.Key.Name, h.Prefix)
}

// each calls f for the streams that the hook covers, newest first, until f returns false.
func (h *Hook) each(ctx context.Context, log *reprise.Log, f func(*reprise.StreamInfo) bool) error {
	if h.Stream != "" {
		st, err := log.Stream(ctx, reprise.StreamKey{Tenant: h.Tenant, Name: h.Stream})
		if isGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := st.Info(ctx)
		if err == nil {
			f(&info)
		}
		return ignoreGone(err)
	}
	query := reprise.ListQuery{Tenant: h.Tenant, Limit: listPage}
	if h.Source == Executions {
		query.Namespace = executionNamespace
	}
	for {
		page, err := log.List(ctx, query)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			if !f(&page.Streams[i]) {
				return nil
			}
		}
		if query.After = page.Next; query.After == "" {
			return nil
		}
	}
}

func isGone(err error) bool {
	return errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
}

func ignoreGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// begin returns the start positions of a new hook: the tails of the streams that have not ended.
func begin(ctx context.Context, log *reprise.Log, hook *Hook) (*sources, error) {
	s := newSources(hook.Created)
	err := hook.each(ctx, log, func(info *reprise.StreamInfo) bool {
		switch {
		case !hook.covers(info):
		case info.End != nil:
			if !info.Created.Before(s.Floor) {
				s.Done[doneKey(info.Key.Name, info.Epoch)] = info.Created
			}
		default:
			s.Open[info.Key.Name] = position{info.Epoch, info.Tail}
		}
		return len(s.Open) <= maxOpen
	})
	if err == nil && len(s.Open) > maxOpen {
		err = invalid("prefix", "it covers more than %d streams that have not ended", maxOpen)
	}
	return s, err
}

// found is a result of a follower: its position, whether the stream is over, and the message to send.
type found struct {
	message *message // may be nil
	name    string
	at      position
	over    bool
	created time.Time // of the stream
	err     error
}

// collector appends the messages of a hook to its queue.
type collector struct {
	hooks *Hooks
	hook  *Hook
	queue *queue

	found     chan found
	followers sync.WaitGroup
	following map[string]bool
	moved     bool // positions moved since they were saved
	crowded   bool
}

// run collects until ctx is done or something fails.
func (c *collector) run(ctx context.Context) error {
	c.found, c.following = make(chan found), map[string]bool{}
	ctx, cancel := context.WithCancel(ctx)
	defer c.followers.Wait()
	defer cancel()
	look, save := time.NewTicker(c.hooks.opts.LookEvery), time.NewTicker(saveEvery)
	defer look.Stop()
	defer save.Stop()
	for name, at := range c.queue.positions() {
		c.follow(ctx, name, at)
	}
	err := c.look(ctx)
	for err == nil {
		select {
		case f := <-c.found:
			err = c.take(ctx, f)
		case <-look.C:
			err = c.look(ctx)
		case <-save.C:
			if c.moved {
				c.moved = false
				err = c.queue.save(ctx)
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return err
}

// look searches for new streams.
func (c *collector) look(ctx context.Context) error {
	if err := c.hooks.check(ctx, c.hook); err != nil {
		return err
	}
	var newest time.Time
	fresh, crowded := map[string]position{}, false
	err := c.hook.each(ctx, c.hooks.log, func(info *reprise.StreamInfo) bool {
		if info.Created.After(newest) {
			newest = info.Created
		}
		if c.hook.Stream == "" && info.Created.Before(c.queue.floor()) {
			return false
		}
		if !c.hook.covers(info) || c.queue.knows(info) {
			return true
		}
		if crowded = len(c.following)+len(fresh) >= maxOpen; !crowded {
			fresh[info.Key.Name] = position{Epoch: info.Epoch}
		}
		return !crowded
	})
	if err != nil {
		return err
	}
	if crowded != c.crowded && crowded {
		c.hooks.opts.Logger.Warn("a webhook covers too many streams; the others wait for one of them to end",
			"webhook", c.hook.ID, "tenant", c.hook.Tenant, "streams", maxOpen)
	}
	c.crowded = crowded
	if crowded {
		newest = time.Time{}
	}
	c.queue.discovered(fresh, newest)
	for name, at := range fresh {
		c.moved = true
		c.follow(ctx, name, at)
	}
	return nil
}

// take adds f to the queue, together with everything else found so far.
func (c *collector) take(ctx context.Context, f found) error {
	batch := []found{f}
	for more := true; more && len(batch) < maxBatch; {
		select {
		case f := <-c.found:
			batch = append(batch, f)
		default:
			more = false
		}
	}
	for _, f := range batch {
		if f.err != nil {
			return f.err
		}
		c.moved = c.moved || f.message == nil
		if f.over {
			delete(c.following, f.name)
		}
	}
	return c.queue.add(ctx, batch)
}

// check returns an error if the maker of a hook may no longer read what the hook sends.
func (h *Hooks) check(ctx context.Context, hook *Hook) error {
	who, err := h.opts.Principal(ctx, hook.Tenant, hook.Principal)
	if errors.Is(err, identity.ErrUnauthenticated) {
		return &disableError{"the credential of " + hook.Principal + ", who made it, is good no more"}
	}
	if err != nil {
		return err
	}
	if name := hook.Stream + hook.Prefix; !who.MayOn(identity.ScopeRead, name) {
		return &disableError{hook.Principal + ", who made it, may not read that any more"}
	}
	return nil
}

// disableError makes its receiver disable the hook.
type disableError struct{ reason string }

func (e *disableError) Error() string { return fmt.Sprintf("disabled: %s", e.reason) }
