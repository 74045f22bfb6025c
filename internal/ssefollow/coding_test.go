package ssefollow_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"reprise/internal/ssefollow"
)

// flusher is a writer that compresses.
type flusher interface {
	io.WriteCloser
	Flush() error
}

func TestDecodeReturnsWhatWasFlushed(t *testing.T) {
	for name, begin := range map[string]func(io.Writer) flusher{
		"gzip":    func(w io.Writer) flusher { return gzip.NewWriter(w) },
		"X-Gzip ": func(w io.Writer) flusher { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) flusher { return zlib.NewWriter(w) },
		"Deflate": func(w io.Writer) flusher {
			raw, err := flate.NewWriter(w, flate.BestSpeed)
			if err != nil {
				panic(err)
			}
			return raw
		},
	} {
		out, in := io.Pipe()
		defer in.Close()
		res := &http.Response{
			Header: http.Header{"Content-Encoding": {name}, "Content-Length": {"7"}}, Body: out, ContentLength: 7,
		}
		if err := ssefollow.Decode(res); err != nil || res.ContentLength != -1 || len(res.Header) > 0 {
			t.Fatalf("%s: %v, %d bytes, %v", name, err, res.ContentLength, res.Header)
		}
		more := make(chan bool)
		go func() {
			w := begin(in)
			for text := range strings.SplitSeq("first second", " ") {
				_, _ = io.WriteString(w, text) // a failure shows at the other end
				_ = w.Flush()
				<-more
			}
			_ = w.Close()
			_ = in.Close()
		}()
		for _, want := range []string{"first", "second"} {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			more <- true
		}
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("%s: then %q, %v", name, rest, err)
		}
	}
}

func TestDecodeNamesAnUnknownCoding(t *testing.T) {
	for _, name := range []string{"br", "gzip, gzip", "nothing"} {
		res := &http.Response{Header: http.Header{"Content-Encoding": {name}}, Body: http.NoBody}
		err := ssefollow.Decode(res)
		if !errors.Is(err, ssefollow.ErrCoding) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeOfDamagedBodies(t *testing.T) {
	for _, name := range []string{"gzip", "deflate"} {
		body := io.NopCloser(bytes.NewReader([]byte("id: 1\ndata: this was never compressed\n\n")))
		res := &http.Response{Header: http.Header{"Content-Encoding": {name}}, Body: body}
		if err := ssefollow.Decode(res); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); !ssefollow.IsDamaged(err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
