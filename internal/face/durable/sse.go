package durable

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"reprise"
	"reprise/internal/web"
)

// control is the event behind each event with data, which says where the reader is.
type control struct {
	NextOffset string `json:"streamNextOffset"`
	Cursor     string `json:"streamCursor,omitempty"`
	UpToDate   bool   `json:"upToDate,omitempty"`
	Closed     bool   `json:"streamClosed,omitempty"`
	// Outcome is not of the protocol; see the header of the name.
	Outcome string `json:"streamOutcome,omitempty"`
}

// follower writes the events of a stream as they come.
type follower struct {
	*stream
	out    *web.SteadyWriter
	asked  *reading
	base64 bool
	frames bytes.Buffer
}

// follow answers a GET with live=sse. It closes the reader.
func (a API) follow(x *web.Exchange, s *stream, rd *reading, reader *reprise.Reader) error {
	defer reader.Close()
	if err := a.Reads.Enter(x); err != nil {
		return err
	}
	x.EndWithServer()
	x.EndWithConnection()
	f := &follower{stream: s, asked: rd, out: x.Steady(true)}
	media := mediaType(s.meta.ContentType)
	f.base64 = !s.meta.isJSON() && !strings.HasPrefix(media, "text/")
	h := x.W.Header()
	h.Set("Content-Type", web.SSE)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	if f.base64 {
		h.Set(sseEncoding, "base64")
	}
	x.AllowWrite()
	x.W.WriteHeader(http.StatusOK)
	err := f.run(x.R.Context(), reader, a.Heartbeat)
	if err != nil && !errors.Is(err, reprise.ErrClosed) { // the client is to come back, and learns why then
		panic(http.ErrAbortHandler)
	}
	return nil
}

// run sends what there is and what comes, until the stream is closed.
func (f *follower) run(ctx context.Context, reader *reprise.Reader, heartbeat time.Duration) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	at := f.asked.from
	for first := true; ; first = false {
		changed := reader.Changed()
		c, next, err := f.fill(ctx, reader, at)
		if err != nil {
			return err
		}
		f.info = reader.Info()
		ended := f.info.End != nil && next >= f.tail()
		if c.count > 0 {
			f.data(&c, next)
		}
		if c.count > 0 || first || ended {
			f.control(next, ended)
			if _, err := f.out.Write(f.frames.Bytes()); err != nil {
				return err
			}
			f.frames.Reset()
		}
		at = next
		switch {
		case ended:
			return nil
		case next < f.tail():
			continue
		}
		if err := f.wait(ctx, changed, beat.C); err != nil {
			return err
		}
	}
}

// wait returns when the stream has changed. Meanwhile it keeps the connection and the stream alive.
func (f *follower) wait(ctx context.Context, changed <-chan struct{}, beat <-chan time.Time) error {
	for {
		select {
		case <-changed:
			return nil
		case <-beat:
			if _, err := f.out.Write([]byte(":\n\n")); err != nil {
				return err
			}
			if err := f.stay(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// data makes the frame of content. Its id is the offset behind it, with which an EventSource resumes.
func (f *follower) data(c *content, next uint64) {
	f.frames.WriteString("id:" + offsetOf(next) + "\nevent: data\n")
	text := c.body()
	if f.base64 {
		text = base64.StdEncoding.AppendEncode(nil, text)
	}
	for len(text) > 0 {
		end := bytes.IndexAny(text, "\r\n")
		if end < 0 {
			end = len(text)
		}
		f.frames.WriteString("data:")
		if text[0] == ' ' { // a reader takes the first space away
			f.frames.WriteByte(' ')
		}
		f.frames.Write(text[:end])
		f.frames.WriteByte('\n')
		if bytes.HasPrefix(text[end:], []byte("\r\n")) {
			end++
		}
		if end == len(text)-1 { // the break at the end of the content is a line without text
			f.frames.WriteString("data:\n")
		}
		text = text[min(end+1, len(text)):]
	}
	f.frames.WriteByte('\n')
}

func (f *follower) control(next uint64, ended bool) {
	c := control{NextOffset: offsetOf(next), UpToDate: next >= f.tail(), Closed: ended}
	if !ended {
		c.Cursor = nextCursor(f.asked.cursor, time.Now())
	} else if how := f.info.End.Outcome; how != outcomeClosed {
		c.Outcome = how
	}
	text, err := json.Marshal(&c)
	if err != nil {
		panic(err) // strings
	}
	f.frames.WriteString("id:" + c.NextOffset + "\nevent: control\ndata:")
	f.frames.Write(text)
	f.frames.WriteString("\n\n")
}
