package clienttest

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// coder is a writer that compresses, and passes on what it has on Flush.
type coder interface {
	io.Writer
	Flush() error
}

// codings are the ways in which a proxy may compress what nobody asked it to compress: the value of Content-Encoding,
// and what it does.
var codings = []struct {
	name, what string
	begin      func(io.Writer) coder
}{
	{"gzip", "gzip", func(w io.Writer) coder { return gzip.NewWriter(w) }},
	{"gzip, in a member for each part", "gzip", func(w io.Writer) coder { return members{w} }},
	{"deflate", "deflate", func(w io.Writer) coder { return zlib.NewWriter(w) }},
	{"deflate without its header", "deflate", func(w io.Writer) coder {
		raw, _ := flate.NewWriter(w, flate.DefaultCompression) // fails for unknown levels
		return raw
	}},
}

// members is a coder that makes a member of gzip (RFC 1952, section 2.2) of whatever is written. Chromium ignores what
// follows the first one, so a page asks again after each silence, and members end with an event.
type members struct{ io.Writer }

func (m members) Write(p []byte) (int, error) {
	w := gzip.NewWriter(m.Writer)
	if _, err := w.Write(p); err != nil {
		return 0, err
	}
	return len(p), w.Close()
}

func (members) Flush() error { return nil }

// compressedAnyway follows streams through proxies that compress although they were not asked to. Each event arrives
// while the stream is open. What a client cannot decode is an error.
func compressedAnyway(ctx context.Context, r *run) error {
	for i, coding := range codings {
		addr, closeIt, err := serve(r.through(coding.what, coding.begin))
		if err != nil {
			return err
		}
		stream := fmt.Sprintf("%s-%d", r.name, i)
		err = r.openAndEnded(ctx, stream, addr)
		closeIt()
		if err != nil {
			return fmt.Errorf("in %s: %w", coding.name, err)
		}
	}
	addr, closeIt, err := serve(r.through("compress", codings[0].begin))
	if err != nil {
		return err
	}
	defer closeIt()
	t := r.follow(addr, r.name+"-0", nil)
	if err := t.wait(); err != nil {
		return fmt.Errorf("in a coding that nobody knows: %w", err)
	}
	if len(t.errs) == 0 || len(t.events) > 0 {
		return errors.New("a coding that nobody knows is no error")
	}
	return nil
}

// openAndEnded publishes events to a stream and follows it at an address: the first events arrive while it is open.
func (r *run) openAndEnded(ctx context.Context, stream, addr string) error {
	const count = 50
	if err := r.server.publish(ctx, stream, 1, count, true); err != nil {
		return err
	}
	t := r.follow(addr, stream, nil)
	if err := t.count(count); err != nil {
		return err
	}
	if err := r.server.publish(ctx, stream, count+1, count, false); err != nil {
		return err
	}
	want, err := r.server.events(ctx, stream)
	if err != nil {
		return err
	}
	return r.exactly(t, want)
}

// through is a proxy in front of the server, which compresses each answer with events and passes on what comes as it
// comes.
func (r *run) through(coding string, begin func(io.Writer) coder) http.Handler {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	return &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: r.server.addr})
			p.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(res *http.Response) error {
			if res.Header.Get("Content-Type") != "text/event-stream" {
				return nil
			}
			res.Header.Set("Content-Encoding", coding)
			res.Header.Del("Content-Length")
			res.ContentLength = -1
			r.cuts.Add(1)
			plain := res.Body
			out, in := io.Pipe()
			res.Body = pipeBody{out, plain}
			go func() { in.CloseWithError(compress(begin(in), plain)) }()
			return nil
		},
	}
}

// pipeBody is a body that ends its source when it is closed.
type pipeBody struct {
	*io.PipeReader
	plain io.Closer
}

func (p pipeBody) Close() error {
	return errors.Join(p.PipeReader.Close(), p.plain.Close())
}

// compress writes what plain has to w, and flushes it after each read.
func compress(w coder, plain io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := plain.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
