package contentcoding_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"reprise/internal/contentcoding"
)

const (
	identity = contentcoding.Identity
	gz       = contentcoding.Gzip
	zst      = contentcoding.Zstd
)

var both = []contentcoding.Coding{gz, zst}

// TestRequestsForPython: readers on it ask for codings that they do not decode.
func TestRequestsForPython(t *testing.T) {
	h := http.Header{"Accept-Encoding": {"gzip, deflate"}, "User-Agent": {"python-requests/2.34.2"}}
	if got := contentcoding.Pick(h); got != identity {
		t.Errorf("it gets %s", got)
	}
}

func TestPickByAcceptEncoding(t *testing.T) {
	for _, tt := range []struct {
		header string
		want   contentcoding.Coding
	}{
		{"", identity},
		{"identity", identity},
		{"*", identity},
		{"br, deflate", identity},
		{"gzip", gz},
		{"x-gzip", gz},
		{"GZip ; Q=0.5", gz},
		{"zstd", zst},
		{"gzip, deflate, br, zstd", gz}, // httpx with zstandard, which cannot decode a stream of frames
		{"gzip;q=0.9, zstd", zst},
		{"gzip;q=1.0, zstd;q=0.9", gz},
		{"zstd;q=0, gzip", gz},
		{"gzip;q=0", identity},
		{"gzip;q=0.5, identity", identity},
		{"gzip;q=0.5, identity;q=0.4", gz},
		{"gzip;q=0.5, identity;q=0.5", gz},
		{"gzip;q=0.001", gz},
		{"gzip;q=2", identity},
		{"gzip;q=-1", identity},
		{"gzip;q=NaN", identity},
		{"gzip;q=", identity},
		{"gzip;level=9", identity},
		{"gzip;q=0, *;q=0.5", identity},
		{"identity;q=0, *", gz},
		{"identity;q=0, gzip;q=0, *;q=0.1", zst},
		{"identity;q=0", identity}, // there is nothing else
		{"*;q=0", identity},
		{",,;;,=", identity},
		{"gzipped", identity},
		{strings.Repeat("a,", 50_000) + "gzip", gz},
	} {
		if got := contentcoding.Pick(http.Header{"Accept-Encoding": {tt.header}}); got != tt.want {
			t.Errorf("%.80q: %s, want %s", tt.header, got, tt.want)
		}
	}
	if got := contentcoding.Pick(http.Header{"Accept-Encoding": {"gzip;q=0", "zstd"}}); got != zst {
		t.Errorf("two lines: %s", got)
	}
}

// decoder decodes as a client does.
func decoder(tb testing.TB, c contentcoding.Coding, r io.Reader) io.Reader {
	tb.Helper()
	if c == gz {
		z, err := gzip.NewReader(r)
		if err != nil {
			tb.Fatal(err)
		}
		z.Multistream(false) // there are clients that stop after the first member
		return z
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(z.Close)
	return z
}

// pieces are bytes as they come: small and large, alike and random.
func pieces(seed uint64) [][]byte {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var list [][]byte
	for range 20 {
		piece := make([]byte, []int{0, 1, 20, 300, 5_000, 64 << 10, 200_000}[rnd.IntN(7)])
		for i := range piece {
			piece[i] = byte('a' + i%7)
			if seed%2 == 0 {
				piece[i] = byte(rnd.Uint32())
			}
		}
		list = append(list, piece)
	}
	return list
}

// TestFlushedIsDecodable: after each flush the client decodes every byte that was written so far, from one response.
func TestFlushedIsDecodable(t *testing.T) {
	for _, coding := range both {
		for seed := range uint64(2) {
			answer := newAnswer()
			w := contentcoding.NewWriter(answer, coding)
			var in io.Reader
			for i, piece := range pieces(seed) {
				kept := bytes.Clone(piece)
				if n, err := w.Write(piece); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
				clear(piece) // it is not the writer's
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Fatal(err)
				}
				if len(kept) == 0 {
					continue
				}
				if in == nil {
					in = decoder(t, coding, answer)
				}
				got := make([]byte, len(kept))
				if _, err := io.ReadFull(in, got); err != nil || !bytes.Equal(got, kept) {
					t.Fatalf("%s, piece %d of %d bytes: %v", coding, i, len(kept), err)
				}
			}
			w.Close()
			answer.over = true
			if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
				t.Errorf("%s: %d bytes after the end, %v", coding, len(rest), err)
			}
		}
	}
}

// answer is a response whose reader sees what was flushed, and fails where it would have to wait.
type answer struct {
	*httptest.ResponseRecorder
	written, flushed []byte
	over             bool
}

var errHeldBack = errors.New("the client has to wait for what was flushed")

func newAnswer() *answer { return &answer{ResponseRecorder: httptest.NewRecorder()} }

func (a *answer) Write(p []byte) (int, error) {
	a.written = append(a.written, p...)
	return len(p), nil
}

func (a *answer) FlushError() error {
	a.flushed, a.written = append(a.flushed, a.written...), nil
	return nil
}

func (a *answer) Read(p []byte) (int, error) {
	if a.over {
		_ = a.FlushError()
	}
	if len(a.flushed) == 0 {
		if a.over {
			return 0, io.EOF
		}
		return 0, errHeldBack
	}
	n := copy(p, a.flushed)
	a.flushed = a.flushed[n:]
	return n, nil
}

// TestUnflushedBodyIsWholeAtClose: a body that is never flushed is complete after Close.
func TestUnflushedBodyIsWholeAtClose(t *testing.T) {
	for _, coding := range both {
		rec := httptest.NewRecorder()
		w := contentcoding.NewWriter(rec, coding)
		var want []byte
		for _, piece := range pieces(3) {
			want = append(want, piece...)
			_, _ = w.Write(piece)
		}
		w.Close()
		got, err := io.ReadAll(decoder(t, coding, rec.Body))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d of %d bytes, %v", coding, len(got), len(want), err)
		}
		if rec.Header().Get("Content-Encoding") != string(coding) {
			t.Errorf("%s: Content-Encoding %q", coding, rec.Header().Get("Content-Encoding"))
		}
	}
}

// TestEmptyBodyIsDecodable: clients can decode the compressed form of an empty body.
func TestEmptyBodyIsDecodable(t *testing.T) {
	for _, coding := range both {
		rec := httptest.NewRecorder()
		w := contentcoding.NewWriter(rec, coding)
		w.WriteHeader(http.StatusOK)
		w.Close()
		if got, err := io.ReadAll(decoder(t, coding, rec.Body)); len(got) > 0 || err != nil {
			t.Errorf("%s: %q, %v", coding, got, err)
		}
	}
}

// TestOtherStatusesPass: refusals are sent as they are.
func TestOtherStatusesPass(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusGone, http.StatusTooManyRequests} {
		rec := httptest.NewRecorder()
		w := contentcoding.NewWriter(rec, gz)
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "as it is")
		w.Close()
		if rec.Body.String() != "as it is" || rec.Header().Get("Content-Encoding") != "" {
			t.Errorf("status %d: %q, %v", status, rec.Body, rec.Header())
		}
	}
}

// TestFailedWritesAreTold: after a write that failed nothing more is tried.
func TestFailedWritesAreTold(t *testing.T) {
	for _, coding := range both {
		broken := &brokenAnswer{ResponseRecorder: httptest.NewRecorder()}
		w := contentcoding.NewWriter(broken, coding)
		if _, err := w.Write([]byte("small")); err != nil {
			t.Errorf("what is pending has failed: %v", err)
		}
		if err := w.FlushError(); !errors.Is(err, errBroken) {
			t.Errorf("flush: %v", err)
		}
		if _, err := w.Write(make([]byte, 300_000)); !errors.Is(err, errBroken) {
			t.Errorf("write: %v", err)
		}
		w.Close()
		if broken.writes != 1 {
			t.Errorf("%d writes", broken.writes)
		}
	}
}

var errBroken = errors.New("broken")

type brokenAnswer struct {
	*httptest.ResponseRecorder
	writes int
}

func (b *brokenAnswer) Write([]byte) (int, error) {
	b.writes++
	return 0, errBroken
}

// TestSharedBetweenReaders: readers of the same bytes at the same time get them, whoever compresses.
func TestSharedBetweenReaders(t *testing.T) {
	var text bytes.Buffer
	for i := range 4_000 {
		fmt.Fprintf(&text, "id: %d.ABCDEF\nevent: stdout\ndata: {\"seq\":%d,\"text\":\"line %d\"}\n\n", i, i, i*i)
	}
	var readers sync.WaitGroup
	for i := range 8 {
		coding := both[i%2]
		readers.Go(func() {
			rec := httptest.NewRecorder()
			w := contentcoding.NewWriter(rec, coding)
			for rest := text.Bytes(); len(rest) > 0; {
				n := min(len(rest), 64<<10)
				_, _ = w.Write(rest[:n])
				_ = w.FlushError()
				rest = rest[n:]
			}
			w.Close()
			got, err := io.ReadAll(decoder(t, coding, rec.Body))
			if err != nil || !bytes.Equal(got, text.Bytes()) {
				t.Errorf("%s: %d bytes, %v", coding, len(got), err)
			}
		})
	}
	readers.Wait()
}

func TestCompressIsReversible(t *testing.T) {
	text := bytes.Repeat([]byte("some page "), 1000)
	for _, coding := range both {
		compressed := contentcoding.Compress(coding, text)
		got, err := io.ReadAll(decoder(t, coding, bytes.NewReader(compressed)))
		if err != nil || !bytes.Equal(got, text) || len(compressed) > len(text)/10 {
			t.Errorf("%s: %d bytes, %v", coding, len(compressed), err)
		}
	}
	if got := contentcoding.Compress(identity, text); !bytes.Equal(got, text) {
		t.Error("identity changes bytes")
	}
}
