package clienttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
)

// heldBytes is how much a holder collects before it passes it on.
const heldBytes = 64 << 10

// holder is a proxy in front of the server that holds back answers until they have 64 KiB or are complete, while holds
// is set. Their header is passed on at once.
type holder struct {
	*httputil.ReverseProxy
	holds    atomic.Bool
	held     atomic.Int32 // answers that were held back
	followed atomic.Int32 // requests for an answer without an end, while holds was not set
}

// newHolder returns a holder that holds back.
func (r *run) newHolder() *holder {
	h := &holder{}
	h.holds.Store(true)
	h.ReverseProxy = &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, FlushInterval: -1,
		ErrorLog: log.New(io.Discard, "", 0), // of what the client has left
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: r.server.addr})
			p.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(res *http.Response) error {
			isStream := res.Header.Get("Content-Type") == "text/event-stream"
			switch {
			case h.holds.Load():
				h.held.Add(1)
				r.cuts.Add(1)
				res.Body = &heldBody{ReadCloser: res.Body}
			case isStream && !res.Request.URL.Query().Has("wait"):
				h.followed.Add(1)
			}
			return nil
		},
	}
	return h
}

// heldBody returns nothing before it has heldBytes, or all.
type heldBody struct {
	io.ReadCloser
	ready bytes.Buffer
}

func (b *heldBody) Read(p []byte) (int, error) {
	if b.ready.Len() == 0 {
		if _, err := io.CopyN(&b.ready, b.ReadCloser, heldBytes); err != nil && b.ready.Len() == 0 {
			return 0, err
		}
	}
	return b.ready.Read(p)
}

// heldBack follows streams through a proxy that holds answers back. The events arrive while the stream is open, and
// when the proxy has stopped to do so, the client follows again.
func heldBack(ctx context.Context, r *run) error {
	sizes := []int{10, 4000}
	return each(len(sizes), 1, func(i int) error {
		stream := fmt.Sprintf("%s-%d", r.name, i)
		if err := r.heldBack(ctx, stream, strings.Repeat("x", sizes[i])); err != nil {
			return fmt.Errorf("events of %d bytes: %w", sizes[i], err)
		}
		return nil
	})
}

func (r *run) heldBack(ctx context.Context, stream, text string) error {
	data := func(i int) []byte { return fmt.Appendf(nil, `{"n":%d,"text":%q}`, i, text) }
	if err := r.server.publishEach(ctx, stream, 40, true, data); err != nil {
		return err
	}
	h := r.newHolder()
	addr, closeIt, err := serve(h)
	if err != nil {
		return err
	}
	defer closeIt()
	t := r.follow(addr, stream, nil)
	for _, n := range []int{40, 45} {
		if err := t.count(n); err != nil {
			return fmt.Errorf("%d answers were held back: %w", h.held.Load(), err)
		}
		if err := r.server.publishEach(ctx, stream, 5, true, data); err != nil {
			return err
		}
	}
	h.holds.Store(false)
	if err := r.until("request to follow", func() bool { return h.followed.Load() > 0 }); err != nil {
		return fmt.Errorf("the proxy holds nothing back any more: %w", err)
	}
	if err := r.server.publishEach(ctx, stream, 5, false, data); err != nil {
		return err
	}
	want, err := r.server.events(ctx, stream)
	if err != nil {
		return err
	}
	return r.exactly(t, want)
}

// olderServer is a server that does not know the parameter wait, behind a proxy that has held two answers back. A
// client that has polled in vain follows as before, and does not poll again.
func olderServer(ctx context.Context, r *run) error {
	const held = 2
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
	rec.single = true // a poll may follow each answer
	var asked, polls atomic.Int32
	addr, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch n := asked.Add(1); {
		case req.URL.Query().Has("wait"):
			polls.Add(1)
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"type":"about:blank","title":"the request is invalid","status":400,"code":"invalid",`+
				`"retryable":false,"field":"wait","detail":"there is no such parameter"}`)
		case n <= held:
			r.cuts.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done()
		default:
			rec.ServeHTTP(w, req)
		}
	}))
	if err != nil {
		return err
	}
	defer closeIt()
	if err := r.exactly(r.follow(addr, r.name, nil), want); err != nil {
		return fmt.Errorf("after %d requests: %w", asked.Load(), err)
	}
	if n := polls.Load(); n > 1 {
		return fmt.Errorf("it has polled %d times", n)
	}
	return nil
}
