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
	// saveEvery is how often positions are saved that moved without a message.
	saveEvery = 10 * time.Second
	// maxBatch is how many messages are appended together, listPage how many streams are listed.
	maxBatch = 100
	listPage = 100
)

// covers reports whether a hook is about a stream.
func (h *Hook) covers(info *reprise.StreamInfo) bool {
	switch {
	case h.Source == Executions:
		return strings.HasPrefix(info.Config.Labels[labelSession], h.Prefix)
	case h.Stream != "":
		return info.Key.Name == h.Stream
	}
	return strings.HasPrefix(info.Key.Name, h.Prefix)
}

// each calls f for the streams that a hook covers, the newest first, until f returns false.
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

// begin returns where a new hook begins: at the tails of the streams that have not ended.
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

// found is what a follower has found in its stream: how far it is, that it is over, and what is to be sent about that.
type found struct {
	message *message // nil for none
	name    string
	at      position
	over    bool
	created time.Time // of the stream
	err     error
}

// collector puts into the queue of a hook what is to be sent.
type collector struct {
	hooks *Hooks
	hook  *Hook
	queue *queue

	found     chan found
	followers sync.WaitGroup
	following map[string]bool
	moved     bool // positions have, since they were saved
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

// look looks for streams that are new.
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

// take takes what was found, with all that is there by then.
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

// check refuses to go on for a hook whose maker may not read any more what it sends.
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

// disableError asks for a hook to be disabled.
type disableError struct{ reason string }

func (e *disableError) Error() string { return fmt.Sprintf("disabled: %s", e.reason) }
