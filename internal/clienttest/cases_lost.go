package clienttest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// madeCursor returns a cursor of an epoch, which is one letter.
func madeCursor(seq int, epoch string) string {
	return fmt.Sprintf("%d.%s.%s", seq, strings.Repeat(epoch, 16), strings.Repeat("0", 13))
}

// made returns the blocks of the events first to last of an epoch.
func made(first, last int, epoch string) string {
	var text strings.Builder
	for seq := first; seq <= last; seq++ {
		fmt.Fprintf(&text, "id: %s\nevent: note\ndata: {\"seq\":%d,\"time\":\"2026-11-20T09:30:00.000Z\",\"text\":\"%d%s\"}\n\n",
			madeCursor(seq, epoch), seq, seq, epoch)
	}
	return text.String()
}

// madeEnd returns the block of the end event.
func madeEnd(seq int, epoch string) string {
	return fmt.Sprintf("id: %s\nevent: end\ndata: {\"seq\":%d,\"time\":\"2026-11-20T09:30:00.000Z\",\"outcome\":\"completed\"}\n\n",
		madeCursor(seq, epoch), seq)
}

// lostHistory is a server that has lost events 4 and 5 and has others in their place. The client, which had received
// them, must be told and continue at the fork.
func lostHistory(_ context.Context, r *run) error {
	problem := fmt.Sprintf(`{"type":"about:blank","title":"changed","status":410,"code":"epoch_changed","retryable":false,`+
		`"earliest":%q,"tail":%q,"fork":%q}`, madeCursor(0, "B"), madeCursor(7, "B"), madeCursor(3, "B"))
	gap := fmt.Sprintf("id: %s\nevent: gap\ndata: {\"code\":\"epoch_changed\",\"earliest\":%q,\"tail\":%q,\"fork\":%q,"+
		"\"missed\":0,\"taken_back\":2}\n\n", madeCursor(3, "B"), madeCursor(0, "B"), madeCursor(7, "B"),
		madeCursor(3, "B"))
	addr, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		last := req.Header.Get("Last-Event-ID")
		body := "retry: 1\n" + made(1, 5, "A") // then the connection ends
		switch {
		case last == "":
		case req.URL.Query().Get("gap") != "event":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGone)
			_, _ = fmt.Fprint(w, problem)
			return
		case strings.Contains(last, "B"):
			w.Header().Set("Stream-Outcome", "completed")
			w.WriteHeader(http.StatusNoContent)
			return
		default:
			body = "retry: 1\n" + gap + made(4, 6, "B") + madeEnd(7, "B")
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, body)
	}))
	if err != nil {
		return err
	}
	defer closeIt()
	t := r.follow(addr, r.name, nil)
	if err := t.wait(); err != nil {
		return err
	}
	var got []string
	for _, e := range t.events {
		got = append(got, fmt.Sprintf("%d%s", e.Seq, e.Data))
	}
	const want = "11A 22A 33A 44A 55A 44B 55B 66B 7"
	if strings.Join(got, " ") != want || len(t.errs) > 0 {
		return fmt.Errorf("it was given %s, errors %v, want %s", strings.Join(got, " "), t.errs, want)
	}
	if len(t.gaps) != 1 || t.gaps[0] != (Gap{Code: "epoch_changed", TakenBack: 2}) {
		return fmt.Errorf("it tells the gaps %+v", t.gaps)
	}
	t = r.follow(addr, r.name, func(c *Command) { c.Gap = "fail" })
	if err := t.wait(); err != nil {
		return err
	}
	if len(t.errs) != 1 || t.errs[0].Code != "epoch_changed" || len(t.events) != 5 {
		return fmt.Errorf("where a gap is a failure: %d events, errors %v", len(t.events), t.errs)
	}
	return nil
}

// hole is a server that omits an event without a gap. A client must report that.
func hole(_ context.Context, r *run) error {
	addr, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if req.Header.Get("Last-Event-ID") == "" {
			_, _ = fmt.Fprint(w, "retry: 1\n"+made(1, 3, "A"))
		}
		_, _ = fmt.Fprint(w, "retry: 1\n"+made(5, 6, "A")+madeEnd(7, "A"))
	}))
	if err != nil {
		return err
	}
	defer closeIt()
	t := r.follow(addr, r.name, nil)
	if err := t.wait(); err != nil {
		return err
	}
	if len(t.errs) != 1 || len(t.events) != 3 {
		return fmt.Errorf("it was given %d events and errors %v, want 3 events and an error", len(t.events), t.errs)
	}
	return nil
}
