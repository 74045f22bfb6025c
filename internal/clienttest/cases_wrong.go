package clienttest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"reprise/client"
	"reprise/internal/cutproxy"
	"reprise/internal/freeport"
)

// neverReached follows at addresses where no server ever answers. The client reports an error that names the URL within
// firstContact, and asks neither without a pause nor twice.
func neverReached(_ context.Context, r *run) error {
	closed, err := freeport.Address()
	if err != nil {
		return err
	}
	type place struct{ what, addr string }
	places := []place{{"a port that is closed", closed}}
	for what, fault := range map[string]cutproxy.Fault{
		"a server that accepts and says nothing": {Kind: cutproxy.Stall},
		"a server that says half a header":       {Kind: cutproxy.Stall, After: 60},
		"a server that resets":                   {Kind: cutproxy.Refuse},
		"a server that speaks no HTTP":           {Kind: cutproxy.Wrong},
	} {
		p, closeIt, err := r.proxy(r.server.addr, cutproxy.Every(fault))
		if err != nil {
			return err
		}
		defer closeIt()
		places = append(places, place{what, p.Addr()})
	}
	return each(len(places), 1, func(i int) error {
		if err := r.givesUp(places[i].addr); err != nil {
			return fmt.Errorf("%s: %w", places[i].what, err)
		}
		return nil
	})
}

// firstContact is more than the time after which a client gives up a server that has never answered: 10 s, after the
// first attempt, which may have been silent for a while.
const firstContact = 40 * time.Second

// givesUp follows at an address where no server is.
func (r *run) givesUp(addr string) error {
	begin := time.Now()
	t := r.follow(addr, r.name, func(c *Command) { c.MaxWaitMS = 200 })
	if err := t.wait(); err != nil {
		return err
	}
	switch took := time.Since(begin).Round(time.Second); {
	case len(t.events) > 0 || len(t.errs) != 1:
		return fmt.Errorf("%d events, the errors %v, want one", len(t.events), t.errs)
	case took > firstContact:
		return fmt.Errorf("it took %v to say so", took)
	case !strings.Contains(t.errs[0].Text, addr):
		return fmt.Errorf("the error does not name the URL: %s", t.errs[0].Text)
	}
	return nil
}

// silentHeads is a server whose answers have a header and nothing else for a long time. A client asks again when a
// heartbeat is missing, neither often nor only once, and delivers what comes in the end.
func silentHeads(ctx context.Context, r *run) error {
	const silent = 4
	if err := r.server.publish(ctx, r.name, 1, 20, false); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	rec, err := r.server.record(ctx, r.name)
	if err != nil {
		return err
	}
	var asked atomic.Int32
	addr, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if asked.Add(1) > silent {
			rec.ServeHTTP(w, req)
			return
		}
		r.cuts.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	if err != nil {
		return err
	}
	defer closeIt()
	if err := r.exactly(r.follow(addr, r.name, nil), want); err != nil {
		return fmt.Errorf("after %d requests: %w", asked.Load(), err)
	}
	return nil
}

// extremes are events whose types and values are at the edges of what a server takes.
func extremes(ctx context.Context, r *run) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	if _, err := c.CreateStream(ctx, r.name, client.StreamConfig{}); err != nil {
		return err
	}
	types := []string{
		"message", "started", "cursor", "expired", "stdout", "ping", "0", "-", "constructor", "__proto__", "toString",
		strings.Repeat("t", 64),
	}
	values := []string{
		`null`, `true`, `false`, `0`, `-0`, `""`, `[]`, `{}`, `1e400`, `-1e-400`, `9007199254740993`, `0.1e1`,
		`"\u0000"`,
		`"\ud83d\ude00"`, `"\ud800"`, `"\u2028\u0085"`, `{"seq":1}`, `{"seq":"x","cursor":"1"}`,
		`{"__proto__":{"seq":9}}`,
		`{"text":"x","base64":"eA=="}`, `{"code":"cursor_expired"}`, `{"a":1,"a":2}`, `{"":{"":{"":[]}}}`,
		strings.Repeat("[", 512) + strings.Repeat("]", 512), `"` + strings.Repeat("x", 1<<20-100) + `"`,
		`[` + strings.Repeat("0,", 100_000) + `0]`,
	}
	p := c.Producer(r.name)
	for i, value := range values {
		event := client.NewEvent{Type: types[i%len(types)], Data: []byte(value)}
		if _, err := p.Publish(ctx, event); err != nil {
			return fmt.Errorf("publish %.60s: %w", value, err)
		}
	}
	for _, size := range []int{0, 1, 1<<20 - 1} {
		if _, err := p.PublishBytes(ctx, types[size%len(types)], make([]byte, size)); err != nil {
			return err
		}
	}
	if _, err := p.End(ctx, "completed", []byte(strings.Repeat("[", 512)+strings.Repeat("]", 512))); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	// All together, and each at the beginning of a connection.
	if err := r.exactly(r.follow(r.server.addr, r.name, nil), want); err != nil {
		return err
	}
	rec, err := r.server.record(ctx, r.name)
	if err != nil {
		return err
	}
	rec.single = true
	return r.replay(rec, want)
}
