package clienttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"reprise/client"
)

// rewriter is a proxy in front of the server that changes what it passes on and does not change its meaning.
type rewriter struct {
	what  string
	early string                // sent before each answer
	head  func(h http.Header)   // changes the header of an answer with events
	begin string                // sent before the events
	block func(b string) string // changes a block
}

// comment is longer than any buffer, and shorter than the lines that a client accepts.
const comment = 10 << 20

// rewriters returns what a client must read through.
func rewriters() []rewriter {
	return []rewriter{
		{
			what:  "informational answers",
			early: "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\nHTTP/1.1 102 X\r\n\r\n",
		},
		{what: "fields that come twice", head: func(h http.Header) {
			for name, values := range h {
				if name == "Content-Type" || strings.HasPrefix(name, "Stream-") {
					h[name] = append(values, values...)
				}
			}
		}},
		{what: "another charset", head: func(h http.Header) {
			h.Set("Content-Type", `Text/Event-Stream; charset=latin1; charset="utf-16"; q`)
		}},
		{what: "Content-Encoding: none", head: func(h http.Header) { h.Set("Content-Encoding", "none") }},
		{what: "a header without fields that it does not know", head: func(h http.Header) {
			for name := range h {
				if name != "Content-Type" && !strings.HasPrefix(name, "Access-Control-") {
					h.Del(name)
				}
			}
		}},
		{what: "fields of events in another order", block: func(b string) string {
			lines := strings.Split(strings.TrimSuffix(b, "\n\n"), "\n")
			slices.Reverse(lines)
			text := strings.ReplaceAll(strings.Join(lines, "\n"), "\nid: ", "\nid:")
			return ": a comment\n" + text + "\nunknown: field\n:\nretry: 1\nnocolon\n\n"
		}},
		{what: "a byte order mark, and lines that end with CR", begin: "\ufeff", block: func(b string) string {
			return strings.ReplaceAll(b, "\n", "\r")
		}},
		{what: "a long comment", begin: ":" + strings.Repeat("x", comment) + "\n"},
	}
}

// rewritten follows a stream through each of the rewriters, which also end the first answers early.
func rewritten(ctx context.Context, r *run) error {
	data := func(i int) []byte { return fmt.Appendf(nil, `{"n":%d,"text":"zażółć 🦊"}`, i) }
	if err := r.server.publishEach(ctx, r.name, 60, false, data); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	all := rewriters()
	return each(len(all), 1, func(i int) error {
		h := r.relay(&all[i], nil)
		addr, closeIt, err := serve(h)
		if err != nil {
			return err
		}
		defer closeIt()
		if err := r.exactly(r.follow(addr, r.name, nil), want); err != nil {
			return fmt.Errorf("%s: %w", all[i].what, err)
		}
		return nil
	})
}

// relay returns the handler of a rewriter. change, if not nil, changes each request. The first answers with events end
// after some of them.
func (r *run) relay(p *rewriter, change func(*http.Request)) http.Handler {
	const early, blocks = 5, 7
	var answers atomic.Int32
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		out := req.Clone(req.Context())
		out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", r.server.addr
		out.Header.Del("Accept-Encoding")
		if change != nil {
			change(out)
		}
		res, err := transport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = buf.WriteString(p.early) // errors stay, and come with Flush
		res.Header.Set("Connection", "close")
		if res.Header.Get("Content-Type") != "text/event-stream" {
			_ = res.Write(buf)
			_ = buf.Flush()
			return
		}
		limit := -1
		if answers.Add(1) <= early {
			r.cuts.Add(1)
			limit = blocks
		}
		_ = p.rewrite(buf, res, limit) // a client that has left
	})
}

// rewrite passes on an answer with events as chunks: two for each block, of which one may end within a character. A
// limit that is not negative is the number of blocks after which it ends.
func (p *rewriter) rewrite(w *bufio.ReadWriter, res *http.Response, limit int) error {
	res.Header.Del("Content-Length")
	if p.head != nil {
		p.head(res.Header)
	}
	_, _ = w.WriteString("HTTP/1.1 200 Sure\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n")
	_ = res.Header.Write(w)
	_, _ = w.WriteString("\r\n")
	send := func(text string) error {
		for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
			if part != "" {
				_, _ = fmt.Fprintf(w, "%x;a=\"b;c\"\r\n%s\r\n", len(part), part)
			}
		}
		return w.Flush()
	}
	if err := send(p.begin); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(res.Body, 1<<20)
	for block := ""; limit != 0; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		block += line
		switch {
		case line == "\n":
			limit--
			if p.block != nil {
				block = p.block(block)
			}
		case line != ":\n" || block != line: // a heartbeat is passed on at once
			continue
		}
		if err := send(block); err != nil {
			return err
		}
		block = ""
	}
	_, _ = w.WriteString("0;last\r\nX-Sum: 1\r\n\r\n")
	return w.Flush()
}

// forgotten follows through a proxy that does not pass on Last-Event-ID: each answer begins with the first kept event,
// and with the gap before it. A client that has had them is given neither twice.
func forgotten(ctx context.Context, r *run) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	few := client.StreamConfig{Retention: client.Retention{MaxEvents: 30}}
	if _, err := c.CreateStream(ctx, r.name, few); err != nil {
		return err
	}
	p := c.Producer(r.name)
	for n := range 60 {
		if _, err := p.Publish(ctx, client.NewEvent{Type: "note", Data: fmt.Appendf(nil, "%d", n)}); err != nil {
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
	addr, closeIt, err := serve(r.relay(&rewriter{}, func(req *http.Request) { req.Header.Del("Last-Event-ID") }))
	if err != nil {
		return err
	}
	defer closeIt()
	t := r.follow(addr, r.name, nil)
	if err := r.exactly(t, want); err != nil {
		return err
	}
	if missed := (Gap{Code: "cursor_expired", Missed: want[0].Seq - 1}); !slices.Equal(t.gaps, []Gap{missed}) {
		return fmt.Errorf("the gaps %+v, want %+v", t.gaps, missed)
	}
	for _, gap := range []string{"yield", "fail"} { // from a cursor, so that there is no gap
		t := r.follow(addr, r.name, func(c *Command) { c.Gap, c.After = gap, want[4].Cursor })
		err := r.exactly(t, want[5:])
		if err == nil && len(t.gaps) > 0 {
			err = fmt.Errorf("the gaps %+v", t.gaps)
		}
		if err != nil {
			return fmt.Errorf("after a cursor, with the gap policy %s: %w", gap, err)
		}
	}
	return nil
}

// redirectedCalls answers starts and publishes with redirects that keep the method and the body. The client follows
// none to another origin.
func redirectedCalls(_ context.Context, r *run) error {
	var stolen atomic.Int32
	trap, closeTrap, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" {
			stolen.Add(1)
		}
		_, _ = io.Copy(io.Discard, req.Body)
	}))
	if err != nil {
		return err
	}
	defer closeTrap()
	const most = 20 // attempts of a call
	for _, status := range []int{301, 303, 307, 308} {
		var asked atomic.Int32
		addr, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "*") // pages ask first, and only for this address
			w.Header().Set("Access-Control-Allow-Headers", req.Header.Get("Access-Control-Request-Headers"))
			if req.Method == http.MethodOptions {
				return
			}
			r.cuts.Add(1)
			asked.Add(1)
			w.Header().Set("Location", "http://"+trap+req.URL.RequestURI())
			w.WriteHeader(status)
		}))
		if err != nil {
			return err
		}
		command := Command{
			URL: "http://" + addr, Token: r.server.token, Stream: r.name, Count: 1, Argv: []string{"true"},
			MinWaitMS: 1, MaxWaitMS: 5,
		}
		for _, command.Do = range []string{"run", "publish"} {
			asked.Store(0)
			t := r.service.do(command)
			if err = t.wait(); err == nil && len(t.errs) != 1 {
				err = fmt.Errorf("%d errors, want one", len(t.errs))
			}
			if n := asked.Load(); n > most {
				err = errors.Join(err, fmt.Errorf("%d attempts", n))
			}
			if n := stolen.Load(); n > 0 {
				err = errors.Join(err, fmt.Errorf("%d requests have brought the token to another origin", n))
			}
			if err != nil {
				closeIt()
				return fmt.Errorf("%s, status %d: %w", command.Do, status, err)
			}
		}
		closeIt()
	}
	return nil
}
