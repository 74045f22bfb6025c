package bench

import (
	"context"
	"net"
	"net/http"

	sse "github.com/tmaxmax/go-sse"

	"reprise"
	"reprise/bench/limit"
	"reprise/internal/httpserver"
	"reprise/internal/park"
	"reprise/sse/ssehttp"
	"reprise/store/memstore"
)

// The servers of the fan-out races: all readers follow one stream from now on.

func fanRaw(context.Context, []string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	raw := &limit.Raw{}
	go func() { _ = raw.Serve(l) }()
	var frames []byte
	var seq uint64
	return &server{
		addr: l.Addr().String(),
		publish: func(data []byte) error {
			seq++
			frames = limit.AppendFrame(frames, seq, data)
			return nil
		},
		flush: func() error {
			raw.Write(frames)
			frames = frames[:0]
			return nil
		},
	}, nil
}

const fanBytes = 1 << 20

func fanFrames(handler func(*limit.Frames) http.Handler) (*server, error) {
	frames := limit.NewFrames(fanBytes)
	addr, err := serveHTTP(handler(frames))
	return &server{addr: addr, publish: func(data []byte) error {
		frames.Append(data)
		return nil
	}}, err
}

func fanHijack(context.Context, []string) (*server, error)   { return fanFrames(limit.Hijack) }
func fanCoalesce(context.Context, []string) (*server, error) { return fanFrames(limit.Coalesce) }

// fanKey is the stream of the fan-out races.
var fanKey = reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "bench"}

func fanReprise(ctx context.Context, _ []string) (*server, error) {
	return fanLog(ctx, func(h http.Handler) (string, error) { return serveHTTP(h) })
}

// fanParked is fanReprise with readers that are parked when a lap begins. Pauses within a lap are shorter, as within a
// stream of tokens.
func fanParked(ctx context.Context, _ []string) (*server, error) {
	lot, err := park.New(&park.Options{After: settle / 2})
	if err != nil {
		return nil, err
	}
	return fanLog(ctx, func(h http.Handler) (string, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		go func() { _ = httpserver.New(lot.Handler(h), nil).Serve(l) }()
		return l.Addr().String(), nil
	})
}

func fanLog(ctx context.Context, serve func(http.Handler) (addr string, err error)) (*server, error) {
	log, err := reprise.Open(ctx, memstore.New(nil), nil)
	if err != nil {
		return nil, err
	}
	s, _, err := log.Create(ctx, fanKey, reprise.StreamConfig{})
	if err != nil {
		return nil, err
	}
	addr, err := serve(handlerOf(log))
	return &server{addr: addr, publish: func(data []byte) error {
		_, err := s.Append(ctx, reprise.Event{Data: data})
		return err
	}}, err
}

// handlerOf serves the stream fanKey of log.
func handlerOf(log *reprise.Log) http.Handler {
	return &ssehttp.Handler{Stream: func(r *http.Request) (*reprise.Stream, error) {
		return log.Stream(r.Context(), fanKey)
	}}
}

func fanGoSSE(context.Context, []string) (*server, error) {
	s := &sse.Server{OnSession: func(w http.ResponseWriter, _ *http.Request) ([]string, bool) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush() // by itself it sends no head before the first event
		return []string{sse.DefaultTopic}, true
	}}
	addr, err := serveHTTP(s)
	return &server{addr: addr, publish: func(data []byte) error {
		m := &sse.Message{Type: sse.Type("message")}
		m.AppendData(string(data))
		return s.Publish(m)
	}}, err
}
