package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
)

// initialize answers the client's initialize when all members are ready or have failed, or when half of the time limit
// is over. It fails if no member is ready then.
func (l *Link) initialize(m link.Message) {
	l.mu.Lock()
	l.params = slices.Clone(m.Params)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.life, l.opts.StartTimeout/2)
	defer cancel()
	failures := make([]error, len(l.members))
	var waiting sync.WaitGroup
	for i, member := range l.members {
		waiting.Go(func() { _, failures[i] = member.connect(ctx) })
	}
	waiting.Wait()
	told := map[string]bool{}
	var sessions []*session
	for _, member := range l.members {
		if s := member.current(); s != nil {
			sessions = append(sessions, s)
			told[member.Name] = true
		}
	}
	if len(sessions) == 0 {
		message := fmt.Sprintf("none of the upstreams came up: %v", errors.Join(failures...))
		l.refuse(m.ID, wire.Internal(wire.ReasonUnavailable, message))
		return
	}
	l.mu.Lock()
	l.told = told
	l.mu.Unlock()
	l.succeed(m.ID, l.greeting(wire.Text(m.Params, "protocolVersion"), sessions))
}

// clientInitialized tells the members that the client is ready, and the client of members that came up after its
// initialize was answered.
func (l *Link) clientInitialized() {
	l.initialized.Store(true)
	l.mu.Lock()
	told := l.told
	l.mu.Unlock()
	for _, m := range l.members {
		s := m.current()
		switch {
		case s == nil:
		case told[m.Name]:
			s.becomeInitialized(l.life)
		default:
			l.run(func() { s.begin(l.life) })
		}
	}
}

// greeting returns the result of initialize. It also offers the capabilities that an unavailable member may have.
func (l *Link) greeting(wanted string, sessions []*session) json.RawMessage {
	version, instructions := "", ""
	away := len(sessions) < len(l.members)
	capabilities := map[string]any{}
	changes := map[string]bool{"listChanged": true}
	for _, kind := range []string{"tools", "prompts"} {
		if away || slices.ContainsFunc(sessions, func(s *session) bool { return s.offers(kind) }) {
			capabilities[kind] = changes
		}
	}
	if away || slices.ContainsFunc(sessions, func(s *session) bool { return s.offers("resources") }) {
		capabilities["resources"] = map[string]bool{"listChanged": true, "subscribe": true}
	}
	for _, kind := range []string{"logging", "completions"} {
		if away || slices.ContainsFunc(sessions, func(s *session) bool { return s.offers(kind) }) {
			capabilities[kind] = struct{}{}
		}
	}
	for _, s := range sessions {
		if agreed := wire.Text(s.greeting, "protocolVersion"); version == "" || agreed == wanted || agreed > version {
			version = agreed
		}
		if text := wire.Text(s.greeting, "instructions"); text != "" {
			instructions += fmt.Sprintf("The tools, prompts and resources that begin with %q:\n\n%s\n\n",
				s.m.Name, text)
		}
	}
	result := map[string]any{
		"protocolVersion": version, "capabilities": capabilities,
		"serverInfo": map[string]string{"name": l.opts.Name, "version": "1"},
	}
	if instructions != "" {
		result["instructions"] = strings.TrimSpace(instructions)
	}
	return wire.Compact(result)
}

// setLevel sets the level of the log of all members that have one.
func (l *Link) setLevel(level string) {
	l.mu.Lock()
	l.level = level
	l.mu.Unlock()
	for _, m := range l.members {
		if s := m.current(); s != nil && s.offers("logging") {
			l.run(func() {
				ctx, cancel := context.WithTimeout(l.life, askPatience)
				defer cancel()
				_, _ = s.ask(ctx, wire.MethodSetLevel, wire.Compact(map[string]string{"level": level}))
			})
		}
	}
}
