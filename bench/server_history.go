package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"

	sse "github.com/tmaxmax/go-sse"

	"reprise"
	"reprise/bench/limit"
	"reprise/sse/ssehttp"
	"reprise/store/memstore"
)

// The servers of the replay and resume races hold a history: their arguments are the number of
// its events and whether the stream has ended ("ended" or "open").

type history struct {
	events int
	ended  bool
}

func parseHistory(args []string) (history, error) {
	if len(args) < 2 {
		return history{}, fmt.Errorf("%w: %q", errOrder, args)
	}
	n, err := strconv.Atoi(args[0])
	return history{events: n, ended: args[1] == "ended"}, err
}

// historyLog fills a stream of a store with single appends.
func historyLog(ctx context.Context, store reprise.Store, h history) (*reprise.Log, *reprise.Stream, error) {
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		return nil, nil, err
	}
	s, _, err := log.Create(ctx, fanKey, reprise.StreamConfig{Retention: keepAll})
	if err != nil {
		return nil, nil, err
	}
	if err := fill(ctx, s, h.events); err != nil {
		return nil, nil, err
	}
	if h.ended {
		_, err = s.End(ctx, "completed", reprise.Event{})
	}
	return log, s, err
}

// historyReprise is ours. The third argument is a folder for a store on disk, or nothing for memory.
func historyReprise(ctx context.Context, args []string) (*server, error) {
	h, err := parseHistory(args)
	if err != nil {
		return nil, err
	}
	var store reprise.Store = memstore.New(nil)
	if len(args) > 2 {
		if store, err = openDisk(ctx, filepath.Join(args[2], "history.db")); err != nil {
			return nil, err
		}
	}
	log, s, err := historyLog(ctx, store, h)
	if err != nil {
		return nil, err
	}
	addr, err := serveHTTP(handlerOf(log))
	return &server{addr: addr, cursor: func(seq uint64) string { return s.Cursor(seq).String() }}, err
}

// historyReady sends the very bytes that ours sends, made beforehand.
func historyReady(ctx context.Context, args []string) (*server, error) {
	h, err := parseHistory(args)
	if err != nil {
		return nil, err
	}
	log, s, err := historyLog(ctx, memstore.New(nil), history{events: h.events, ended: true})
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	ssehttp.Serve(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), s, ssehttp.Request{}, nil)
	if err := log.Close(); err != nil {
		return nil, err
	}
	addr, err := serveHTTP(limit.Ready(w.Body.Bytes(), !h.ended))
	return &server{addr: addr}, err
}

// historyBare sends the same events in the smallest frames.
func historyBare(_ context.Context, args []string) (*server, error) {
	h, err := parseHistory(args)
	if err != nil {
		return nil, err
	}
	var body []byte
	for i := range h.events {
		body = limit.AppendFrame(body, uint64(i+1), newPayload())
	}
	addr, err := serveHTTP(limit.Ready(body, !h.ended))
	return &server{addr: addr}, err
}

// historyGoSSE holds the history in the replayer of go-sse.
func historyGoSSE(_ context.Context, args []string) (*server, error) {
	h, err := parseHistory(args)
	if err != nil {
		return nil, err
	}
	replayer, err := sse.NewFiniteReplayer(h.events+1, true)
	if err != nil {
		return nil, err
	}
	joe := &sse.Joe{Replayer: replayer}
	for range h.events {
		m := &sse.Message{Type: sse.Type("message")}
		m.AppendData(string(newPayload()))
		if err := joe.Publish(m, []string{sse.DefaultTopic}); err != nil {
			return nil, err
		}
	}
	addr, err := serveHTTP(&sse.Server{Provider: joe})
	return &server{addr: addr, cursor: func(seq uint64) string {
		return strconv.FormatUint(seq-1, 10) // its numbers begin with 0
	}}, err
}

// historyFlush writes and flushes each event, as most programs do.
func historyFlush(_ context.Context, args []string) (*server, error) {
	h, err := parseHistory(args)
	if err != nil {
		return nil, err
	}
	data := newPayload()
	addr, err := serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		for i := range h.events {
			_, _ = w.Write(limit.AppendFrame(nil, uint64(i+1), data))
			_ = rc.Flush()
		}
	}))
	return &server{addr: addr}, err
}
