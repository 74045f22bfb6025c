package contentcoding_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"reprise/internal/contentcoding"
)

// frames are n bytes of the output of a compiler as an event stream.
func frames(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "id: %d.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC\nevent: stdout\ndata: {\"seq\":%d,\"time\":\"2026-11-20T09:30:%02d.%03dZ\","+
			"\"text\":\"[%3d%%] Building CXX object src/module%d/CMakeFiles/part%d.dir/file%x.cpp.o\\n\"}\n\n",
			i, i, rnd.IntN(60), rnd.IntN(1000), i%100, rnd.IntN(40), rnd.IntN(9), rnd.Uint32())
	}
	return b.Bytes()[:n]
}

// discard is a response that counts.
type discard struct {
	header http.Header
	n      int
}

func (d *discard) Header() http.Header { return d.header }
func (*discard) WriteHeader(int)       {}
func (d *discard) FlushError() error   { return nil }
func (d *discard) Write(p []byte) (int, error) {
	d.n += len(p)
	return len(p), nil
}

// BenchmarkReplay compresses pieces of a replay: for the first reader, and for those that come together.
func BenchmarkReplay(b *testing.B) {
	for _, coding := range both {
		for _, size := range []int{200, 64 << 10} {
			for _, how := range []string{"alone", "shared"} {
				b.Run(fmt.Sprintf("coding=%s/size=%d/%s", coding, size, how), func(b *testing.B) {
					text := frames(max(size, 16<<20))
					d := &discard{header: http.Header{}}
					w := contentcoding.NewWriter(d, coding)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					at, plain := 0, 0
					for b.Loop() {
						if how == "alone" {
							at = (at + size) % (len(text) - size)
						}
						_, _ = w.Write(text[at : at+size])
						_ = w.FlushError()
						plain += size
					}
					b.ReportMetric(float64(plain)/float64(d.n), "ratio")
				})
			}
		}
	}
}
