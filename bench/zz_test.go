package bench

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"reprise"
	"reprise/memstore"
	"reprise/ssehttp"
)

func BenchmarkZZ(b *testing.B) {
	ctx := b.Context()
	l, _ := reprise.Open(ctx, memstore.New(nil), nil)
	s, _, err := l.Create(ctx, reprise.StreamKey{Tenant: "default", Name: "x"}, reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 1 << 30, MaxBytes: 1 << 40}})
	if err != nil { b.Fatal(err) }
	data := make([]byte, 200)
	for i := range data { data[i] = 'a' + byte(i%26) }
	for range 1000 {
		evs := make([]reprise.Event, 100)
		for i := range evs { evs[i] = reprise.Event{Type: "message", Data: data} }
		if _, err := s.Append(ctx, evs...); err != nil { b.Fatal(err) }
	}
	s.End(ctx, "completed", reprise.Event{})
	srv := httptest.NewServer(&ssehttp.Handler{Stream: func(*http.Request) (*reprise.Stream, error) { return s, nil }})
	defer srv.Close()
	buf := make([]byte, 1<<20)
	for b.Loop() {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil { b.Fatal(err) }
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		n := 0
		for { m, err := c.Read(buf); n += m; if err != nil { break } }
		c.Close()
		b.SetBytes(int64(n))
	}
}
