package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"reprise"
)

// lineEncoder makes the line of an event. It is the same for all readers.
type lineEncoder struct{}

// AppendEvent implements reprise.Encoder.
func (lineEncoder) AppendEvent(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	return append(appendEvent(dst, e, cursorSuffix), '\n')
}

// appendEvent appends the event as it stands in a line or a page:
//
//	{"cursor":"7.<epoch>.<tag>","type":"stdout","seq":7,"time":"...","text":"..."}
func appendEvent(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	dst = append(dst, `{"cursor":"`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, cursorSuffix...)
	dst = append(dst, `","type":"`...)
	dst = append(dst, e.Type...)
	dst = append(dst, `",`...)
	return append(e.AppendMembers(dst), '}')
}

// lineWriter is one response of lines that follows a stream.
type lineWriter struct {
	server *Server
	w      http.ResponseWriter
	rc     *http.ResponseController
	reader *reprise.Reader
	wanted map[string]bool // nil for all types
	suffix string          // of the cursors
	moved  uint64          // seq up to which events were left out since the last line
	err    error           // the first failed write
	// deadline is the one that is set for writes.
	deadline time.Time
}

// lines answers with a line an event, and follows the stream until its end. A blank
// line is a heartbeat; one with nothing but a cursor says that events up to it were
// filtered out. At the very end of the stream the answer is 204, as for SSE.
func (s *Server) lines(x *exchange, rd *reading) error {
	reader, gap, err := rd.Open(x.r, rd.stream)
	if err != nil {
		return err
	}
	defer reader.Close()
	run, err := reader.Poll(x.r.Context())
	if errors.Is(err, io.EOF) && gap == nil {
		return x.done()
	}
	if err != nil && !errors.Is(err, io.EOF) && !fellOut(err) {
		return err
	}
	lw := &lineWriter{
		server: s, w: x.w, rc: http.NewResponseController(x.w), reader: reader,
		wanted: rd.wantedTypes(), suffix: rd.stream.Cursor(0).String()[1:],
	}
	x.w.Header().Set("Content-Type", ndjsonType)
	x.w.Header().Set("X-Accel-Buffering", "no")
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodHead {
		return nil
	}
	if gap != nil {
		lw.write(append(s.appendGap(nil, reader, gap), '\n'))
	}
	lw.follow(x.r.Context(), run, err)
	return nil
}

// follow sends run, which was polled with err, and then all that comes.
func (lw *lineWriter) follow(ctx context.Context, run reprise.Run, err error) {
	heartbeat := time.NewTimer(lw.server.opts.Heartbeat)
	defer heartbeat.Stop()
	for lw.err == nil {
		switch {
		case fellOut(err):
			lw.write(append(lw.server.appendGap(nil, lw.reader, err), '\n'))
			if lw.reader.Seek(reprise.Earliest()) != nil {
				return
			}
		case err != nil: // the end, or nobody to read or to be read from
			lw.flush()
			return
		case run.Len() > 0:
			lw.send(run)
		case !lw.wait(ctx, heartbeat):
			return
		}
		run, err = lw.reader.Poll(ctx)
	}
}

func (lw *lineWriter) send(run reprise.Run) {
	if lw.wanted == nil {
		lw.write(run.Encoded(lineEncoder{}))
		return
	}
	var out []byte
	for e := range run.All() {
		lw.moved = e.Seq
		if lw.wanted[e.Type] {
			out = lineEncoder{}.AppendEvent(out, &e, lw.suffix)
			lw.moved = 0
		}
	}
	lw.write(out)
}

// wait sends what was written and waits until there is more. It sends the heartbeats.
func (lw *lineWriter) wait(ctx context.Context, heartbeat *time.Timer) bool {
	changed := lw.reader.Changed()
	select {
	case <-changed: // more has come meanwhile: send it together
		return true
	default:
	}
	lw.flush()
	heartbeat.Reset(lw.server.opts.Heartbeat)
	for lw.err == nil {
		select {
		case <-changed:
			return true
		case <-ctx.Done():
			return false
		case <-heartbeat.C:
			lw.write([]byte{'\n'})
			lw.flush()
			heartbeat.Reset(lw.server.opts.Heartbeat)
		}
	}
	return false
}

// write hands bytes to the response, within the time that the reader has for them.
func (lw *lineWriter) write(b []byte) {
	if lw.err != nil || len(b) == 0 {
		return
	}
	lw.allow()
	_, lw.err = lw.w.Write(b)
}

// flush sends all that was written, behind it the cursor past what was left out.
func (lw *lineWriter) flush() {
	if lw.moved > 0 {
		line := append([]byte(`{"cursor":"`), strconv.FormatUint(lw.moved, 10)...)
		lw.moved = 0
		lw.write(append(append(line, lw.suffix...), "\"}\n"...))
	}
	if lw.err == nil {
		lw.allow()
		lw.err = lw.rc.Flush()
	}
}

// allow moves the deadline for writes. Setting one takes longer than a small
// write, so it is set at most once a second.
func (lw *lineWriter) allow() {
	deadline := time.Now().Add(lw.server.opts.WriteTimeout)
	if deadline.Sub(lw.deadline) >= time.Second {
		lw.deadline = deadline
		// A ResponseWriter without deadlines is one without a network behind it.
		_ = lw.rc.SetWriteDeadline(deadline)
	}
}
