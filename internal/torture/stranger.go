//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// strangerName is the prefix of the ids of the other tenant's events.
const strangerName = "stranger"

// stranger is a principal of another tenant with all scopes there. It has a stream with the name of one of the stage's
// streams, and none with the names of the others. It checks that responses about the stage's streams equal those about
// streams that do not exist. (G8)
type stranger struct {
	s     *stage
	turn  int
	calls *caller // nil before it has a key
	since time.Time
	sent  int
}

// knownWithin bounds how long a server may take to know a key that another one has made, beside faults of the store.
const knownWithin = 20 * time.Second

// ownStream is the stream of the stranger. A stream of the stage has the same name.
var ownStream = &stream{name: "busy"}

func (s *stage) startStranger(ctx context.Context, wg *sync.WaitGroup) {
	wg.Go(func() {
		x := &stranger{s: s}
		for ; ctx.Err() == nil; x.turn++ {
			if x.calls == nil {
				x.enter(ctx)
			} else if ack := s.ledger.newestCursor(); ack != nil {
				x.publish(ctx)
				x.readOwn(ctx)
				x.list(ctx)
				x.askForOurs(ctx, ack)
			}
			pause(ctx, 50*time.Millisecond)
		}
	})
}

func (x *stranger) violation(what string, args ...any) {
	x.s.ledger.violation("another tenant: "+what, args...)
}

// call sends a request and returns nil if the response says nothing.
func (x *stranger) call(ctx context.Context, method, path string, header map[string]string, body []byte) *answer {
	a, err := x.calls.call(ctx, x.turn, &request{method, path, header, body})
	switch {
	case err != nil || a.passing():
		return nil
	case a.status == http.StatusUnauthorized && x.s.engine.mayLose(): // a promotion lost the key
		x.calls = nil
		return nil
	case a.status == http.StatusUnauthorized && time.Since(x.since) < knownWithin:
		return nil
	}
	return a
}

func jsonHeader() map[string]string { return map[string]string{"Content-Type": "application/json"} }

// enter creates a key of the other tenant and its stream.
func (x *stranger) enter(ctx context.Context) {
	a, err := x.s.calls.call(ctx, x.turn, &request{
		http.MethodPost, "/v1/keys", jsonHeader(),
		[]byte(`{"name":"stranger","tenant":"other","scopes":["read","publish","run","control"]}`),
	})
	if err != nil || a.passing() {
		return
	}
	var made struct{ Key string }
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
		x.violation("it gets no key: status %d %s", a.status, a.Code)
		return
	}
	pause(ctx, 2*time.Second) // until all servers know the key
	x.calls, x.since = newCaller(x.s.calls.bases, made.Key), time.Now()
	if x.call(ctx, http.MethodPut, ownStream.path(), jsonHeader(), []byte(`{"retention":{"max_events":50}}`)) == nil {
		x.calls = nil
	}
}

func (x *stranger) publish(ctx context.Context) {
	x.sent++
	id := fmt.Sprintf("%s.%d.0", strangerName, x.sent)
	a := x.call(ctx, http.MethodPost, ownStream.path()+"/events", jsonHeader(), eventsOf([]string{id}))
	if a != nil && a.status != http.StatusOK && !x.s.engine.mayLose() {
		x.violation("its append got status %d %s", a.status, a.Code)
	}
}

// readOwn reads the stranger's stream, which must contain only its own events.
func (x *stranger) readOwn(ctx context.Context) {
	if x.calls == nil {
		return
	}
	a := x.call(ctx, http.MethodGet, ownStream.path()+"/events?after=earliest&limit=1000", nil, nil)
	if a == nil || a.status != http.StatusOK {
		return
	}
	var p page
	if err := json.Unmarshal(a.body, &p); err != nil {
		x.violation("its stream is %q", a.body)
	}
	x.s.ledger.count("read by another tenant", len(p.Events))
	for i := range p.Events {
		if id := p.Events[i].id(); !strings.HasPrefix(id, strangerName) {
			x.violation("its stream has %q of ours", id)
		}
	}
	if len(p.Events) > 50 {
		x.violation("its stream keeps %d events, and 50 is its bound", len(p.Events))
	}
}

// list lists the streams that the stranger sees.
func (x *stranger) list(ctx context.Context) {
	if x.calls == nil {
		return
	}
	a := x.call(ctx, http.MethodGet, "/v1/streams", nil, nil)
	if a == nil {
		return
	}
	var p struct{ Streams []struct{ Name string } }
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != http.StatusOK {
		x.violation("its list of streams got status %d: %s", a.status, a.body)
		return
	}
	for _, st := range p.Streams {
		if st.Name != ownStream.name {
			x.violation("it is told of the stream %q", st.Name)
		}
	}
}

// askForOurs requests a stream and a cursor of the stage, and a stream and a cursor that do not exist.
func (x *stranger) askForOurs(ctx context.Context, ours *ack) {
	ask := func(method, path string) *answer {
		if x.calls == nil {
			return nil
		}
		return x.call(ctx, method, path, nil, nil)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		x.compare(ask(method, "/v1/streams/early"), ask(method, "/v1/streams/nobody"), "early", "nobody")
	}
	x.compare(ask(http.MethodGet, "/v1/streams/early/events?after="+ours.cursor),
		ask(http.MethodGet, "/v1/streams/nobody/events?after="+ours.cursor), "early", "nobody")
	forged := forge(ours.cursor)
	x.compare(ask(http.MethodGet, ownStream.path()+"/events?after="+ours.cursor),
		ask(http.MethodGet, ownStream.path()+"/events?after="+forged), ours.cursor, forged)
}

// forge returns a cursor that resembles another one and that no server has issued.
func forge(cursor string) string {
	last := len(cursor) - 1
	if cursor[last] == 'A' {
		return cursor[:last] + "Q"
	}
	return cursor[:last] + "A"
}

// compare checks that requests for the stage's streams are refused like those for streams that do not exist.
func (x *stranger) compare(ours, nobodys *answer, name, other string) {
	if ours == nil || nobodys == nil {
		return
	}
	x.s.ledger.count("asked by another tenant", 1)
	if ours.status == http.StatusOK { // removing a missing stream returns 204
		x.violation("%q is answered with status %d: %s", name, ours.status, ours.body)
		return
	}
	if a, b := headersOf(ours), headersOf(nobodys); ours.status != nobodys.status || !slices.Equal(a, b) ||
		strings.ReplaceAll(string(ours.body), name, other) != string(nobodys.body) {
		x.violation("%q: status %d %s %s\nand %q: status %d %s %s", name, ours.status, ours.body, a,
			other, nobodys.status, nobodys.body, b)
	}
}

// headersOf returns the names of the headers of an answer.
func headersOf(a *answer) (names []string) {
	for name := range a.header {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
