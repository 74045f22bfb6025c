package clienttest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"reprise/client"
	"reprise/internal/cutproxy"
)

// foreignEvents are those that something in front of the server puts before and among its own, on every connection, of
// which many are cut: some before an event has come.
func foreignEvents(ctx context.Context, r *run) error {
	const cuts = 20
	if err := r.server.publish(ctx, r.name, 1, 200, false); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	return r.among(r.name, "", cuts, want, nil)
}

// among follows a stream through a proxy that puts blocks before and among those of the server on every connection, of
// which the first ones are cut.
func (r *run) among(stream, text string, cuts int, want []Event, change func(*Command)) error {
	cut, closeCut, err := r.proxy(r.server.addr, func(n int) *cutproxy.Fault {
		if n >= cuts {
			return nil
		}
		return &cutproxy.Fault{Kind: cutproxy.FIN, After: []int64{900, 700, 600}[n%3]}
	})
	if err != nil {
		return err
	}
	defer closeCut()
	p, closeIt, err := r.proxy(cut.Addr(), cutproxy.Every(cutproxy.Fault{Kind: cutproxy.Foreign, Text: text}))
	if err != nil {
		return err
	}
	defer closeIt()
	if err := r.exactly(r.follow(p.Addr(), stream, change), want); err != nil {
		return err
	}
	if got := cut.Faults(); got != cuts {
		return fmt.Errorf("%d cuts of %d happened", got, cuts)
	}
	return nil
}

// foreignIDs are blocks with an id that are not the server's. No block that is not provably the server's ends a follow
// or moves its cursor, whatever its type and id, and however often it comes; for readers of all events and of some.
func foreignIDs(ctx context.Context, r *run) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	if _, err := c.CreateStream(ctx, r.name, client.StreamConfig{}); err != nil {
		return err
	}
	p := c.Producer(r.name)
	for i := range 40 {
		event := client.NewEvent{Type: []string{"note", "noise"}[i%2], Data: fmt.Appendf(nil, "%d", i)}
		if _, err := p.Publish(ctx, event); err != nil {
			return err
		}
	}
	if _, err := p.End(ctx, "completed", nil); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	some := slices.DeleteFunc(slices.Clone(want), func(e Event) bool { return e.Type == "noise" })
	filters := slices.Contains(r.service.hello.Can, "types")
	if filters {
		if err := r.renewed(); err != nil {
			return fmt.Errorf("an epoch that changes without a gap, with a filter: %w", err)
		}
	}
	texts := foreignBlocks(want[len(want)/2].Cursor)
	return each(len(texts), 1, func(i int) error {
		if err := r.among(r.name, texts[i], 6, want, nil); err != nil {
			return fmt.Errorf("%q: %w", texts[i], err)
		}
		if !filters {
			return nil
		}
		filtered := func(c *Command) { c.Types = []string{"note"} }
		if err := r.among(r.name, texts[i], 2, some, filtered); err != nil {
			return fmt.Errorf("%q, with a filter: %w", texts[i], err)
		}
		return nil
	})
}

// renewed is a server that continues in another epoch in the middle of a response, and says so in the header of the
// next one. A reader of some types cannot tell its events from those of something else before that.
func (r *run) renewed() error {
	addr, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		body, epoch := made(1, 2, "A"), "A"
		if req.Header.Get("Last-Event-ID") != "" {
			body, epoch = "", "B"
		}
		w.Header().Set("Stream-Tail", madeCursor(2, epoch))
		_, _ = fmt.Fprint(w, "retry: 1\n"+body+made(4, 4, "B")+madeEnd(5, "B"))
	}))
	if err != nil {
		return err
	}
	defer closeIt()
	t := r.follow(addr, r.name, func(c *Command) { c.Types = []string{"note"} })
	if err := t.wait(); err != nil {
		return err
	}
	var got []string
	for _, e := range t.events {
		got = append(got, fmt.Sprintf("%d%s", e.Seq, e.Data))
	}
	if strings.Join(got, " ") != "11A 22A 44B 5" || len(t.errs) > 0 || len(t.gaps) > 0 {
		return fmt.Errorf("it was given %q, errors %v, gaps %v", got, t.errs, t.gaps)
	}
	return nil
}

// foreignBlocks returns blocks that something in front of a server may insert. ours is a cursor of the stream.
func foreignBlocks(ours string) []string {
	const member = `"time":"2026-11-20T09:30:00.000Z"`
	other, ahead := madeCursor(1, "B"), madeCursor(999_999, "B")
	return []string{
		"id: 99\n\n", "id\n\n", "id: \n\n", "id: two words\n\n", "id: " + other + "\n\n", "id: " + ahead + "\n\n",
		"id: 5\nevent: ping\ndata: {}\n\n", "id: 5\nevent: ping\ndata: [1]\n\n", "id: 5\ndata: not JSON\n\n",
		"id: 6\nevent: end\ndata: {\"outcome\":\"completed\"}\n\n", "id: 7\nevent: gap\ndata: {}\n\n",
		"id: 8\nevent: cursor\ndata: {\"cursor\":\"8\"}\n\n", "id: 9\ndata: {\"seq\":9}\n\n",
		"id: 1\nevent: note\ndata: {\"seq\":1," + member + ",\"text\":\"x\"}\n\n",
		"id: 1\nevent: end\ndata: {\"seq\":1," + member + ",\"outcome\":\"completed\"}\n\n",
		"id: " + ours + "\nevent: ping\ndata: {}\n\n", "data: {\"seq\":12}\n\n", "event: note\ndata: {\"seq\":1}\n\n",
		"id: " + other + "\nevent: ping\ndata: {}\n\n", "id: " + other + "\ndata: not JSON\n\n",
		"id: " + other + "\nevent: cursor\ndata: {\"cursor\":\"" + other + "\"}\n\n",
		"id: " + ahead + "\nevent: note\ndata: {\"seq\":999999," + member + ",\"text\":\"x\"}\n\n",
		"id: " + other + "\nevent: note\ndata: {\"seq\":1," + member + ",\"text\":\"x\"}\n\n",
		"id: " + other + "\nevent: end\ndata: {\"seq\":1," + member + ",\"outcome\":\"completed\"}\n\n",
		"id: " + ahead + "\nevent: gap\ndata: {\"code\":\"cursor_expired\",\"earliest\":\"" + ahead + "\"}\n\n",
		"event: expired\ndata: {\"code\":\"unauthenticated\"}\n\n",
	}
}
