package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"reprise/mcphttp"
)

// An upstream of version 2026-07-28 is asked once for each connection to tell what changes, and we tell those who want to know:
// a server may take a second subscriptions/listen on a connection for one in the place of the first.

// hearing is what an upstream was asked to tell.
type hearing struct {
	changing sync.Mutex // held while it is asked for something else

	mu     sync.Mutex
	filter filter
	call   *call
}

// hearPause is the time after which an upstream is asked again that has stopped to tell.
const hearPause = time.Second

// add makes f hold what other holds, and reports whether it has grown.
func (f *filter) add(other filter) bool {
	grown := other.Tools && !f.Tools || other.Prompts && !f.Prompts || other.Resources && !f.Resources
	f.Tools, f.Prompts, f.Resources = f.Tools || other.Tools, f.Prompts || other.Prompts, f.Resources || other.Resources
	for _, uri := range other.URIs {
		if !hasString(f.URIs, uri) {
			f.URIs = append(slices.Clone(f.URIs), uri)
			grown = true
		}
	}
	return grown
}

// hear has the upstream tell what is wanted, too. It does not wait.
func (p *peer) hear(wanted filter) {
	h := &p.hearing
	h.mu.Lock()
	grown := h.filter.add(wanted)
	h.mu.Unlock()
	if grown {
		p.g.begin(func() { p.hearAgain() })
	}
}

// hearAgain ends what the upstream was asked for, and asks for what is wanted now.
func (p *peer) hearAgain() {
	h := &p.hearing
	h.changing.Lock()
	defer h.changing.Unlock()
	h.mu.Lock()
	before, wanted := h.call, h.filter
	h.call = nil
	h.mu.Unlock()
	if before != nil {
		p.link.drop(before)
		p.cancel(before, "")
		select {
		case <-before.answer:
		case <-p.link.done():
		case <-time.After(quickly):
		}
		p.forget(before)
	}
	c := &call{method: methodListen, answer: make(chan mcphttp.Message, 1)}
	params, err := p.begin(c, compact(map[string]any{"notifications": wanted, "_meta": ourMeta()}))
	if err != nil {
		return // there is nothing to be told any more
	}
	h.mu.Lock()
	h.call = c
	h.mu.Unlock()
	if err := p.send(p.g.life, c, params, nil); err != nil {
		p.forget(c)
		return
	}
	p.g.begin(func() { p.keepHearing(p.g.life, c) })
}

// keepHearing asks again when the upstream stops to tell.
func (p *peer) keepHearing(ctx context.Context, c *call) {
	select {
	case m := <-c.answer:
		c.answer <- m // hearAgain may wait for it
		if m.Err != nil && c.failure == nil {
			return // it does not tell
		}
	case <-p.link.done():
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-time.After(hearPause):
	case <-p.link.done():
		return
	case <-ctx.Done():
		return
	}
	p.hearing.mu.Lock()
	still := p.hearing.call == c
	p.hearing.mu.Unlock()
	if still {
		p.hearAgain()
	}
}
