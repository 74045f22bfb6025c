package clienttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// recording is a recorded stream that answers any request for events as its server would. It omits pauses, so that
// thousands of cuts take seconds.
type recording struct {
	head   string  // sent before the blocks, for example a byte order mark
	blocks []block // the last one is the end
	end    string  // of a line
	piece  int     // bytes in one write; 0 means all
	single bool    // a response ends after one block

	open atomic.Int32 // current responses
}

// block is one event on the wire, with LF.
type block struct {
	cursor string
	text   string
}

// record records a stream that has ended.
func (s *server) record(ctx context.Context, stream string) (*recording, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+eventsPath(stream), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("record %s: %s, %w", stream, res.Status, err)
	}
	rec := &recording{end: "\n"}
	text := strings.TrimPrefix(string(body), "retry: 1000\n")
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		_, id, _ := strings.Cut("\n"+part, "\nid: ")
		id, _, _ = strings.Cut(id, "\n")
		rec.blocks = append(rec.blocks, block{id, part + "\n\n"})
	}
	return rec, nil
}

func eventsPath(stream string) string { return "/v1/streams/" + stream + "/events" }

// ServeHTTP sends the events after the cursor of the request.
func (rec *recording) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec.open.Add(1)
	defer rec.open.Add(-1)
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = r.URL.Query().Get("after")
	}
	rest := rec.blocks
	for i, b := range rec.blocks {
		if b.cursor == after {
			rest = rec.blocks[i+1:]
		}
	}
	w.Header().Set("Stream-Outcome", "completed")
	if len(rest) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if rec.single {
		rest = rest[:1]
	}
	var text bytes.Buffer
	text.WriteString(rec.head + "retry: 1\n")
	for _, b := range rest {
		text.WriteString(b.text)
	}
	body := strings.ReplaceAll(text.String(), "\n", rec.end)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	piece := rec.piece
	if piece == 0 {
		piece = len(body)
	}
	for ; len(body) > 0; body = body[min(piece, len(body)):] {
		if _, err := io.WriteString(w, body[:min(piece, len(body))]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// serve serves a handler on a free loopback port until close is called.
func serve(h http.Handler) (addr string, closeIt func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return listener.Addr().String(), func() {
		_ = server.Close()
		<-done
	}, nil
}
