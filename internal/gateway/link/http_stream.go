package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
	"reprise/sse"
)

const (
	// resumeTries is the number of consecutive attempts to resume a broken answer.
	resumeTries = 6
	// resumePause is the first pause between two attempts if the upstream names none. resumePauseMax is the longest
	// pause.
	resumePause, resumePauseMax = 200 * time.Millisecond, 10 * time.Second
)

// place is a position in a stream of the upstream.
type place struct {
	lastEventID string
	retry       time.Duration
	questions   int         // requests of the upstream before it
	tell        func(Place) // see Message.At; may be nil
}

// note notes the place of the decoder.
func (at *place) note(d *sse.Decoder) {
	if id := d.LastEventID(); id != "" {
		at.lastEventID = id
	}
	if retry, ok := d.Retry(); ok {
		at.retry = retry
	}
}

// readAnswerStream reads the answer to a request, and resumes it if it breaks.
func (l *HTTP) readAnswerStream(ctx context.Context, body io.ReadCloser, m *Message) {
	at := &place{tell: m.At}
	answered, err := l.readEvents(body, at, m.ID)
	if !answered {
		l.resumeAnswer(ctx, at, m.ID, err)
	}
}

// Resume continues to read the answer to a request that another link has sent. It takes the place of Agree and of
// Send, and is called once. at.ID is the id of the request for Receiver and Drop. tell is as Message.At.
func (l *HTTP) Resume(at Place, tell func(Place)) error {
	life, stop := context.WithCancel(l.life)
	l.mu.Lock()
	l.session, l.version, l.stops[at.ID] = at.Session, at.Version, stop
	l.mu.Unlock()
	if l.run(func() {
		defer l.finish(at.ID)
		l.resumeAnswer(life, &place{lastEventID: at.LastEventID, tell: tell}, at.ID, nil)
	}) {
		return nil
	}
	l.finish(at.ID)
	return ErrEnded
}

// resumeAnswer reads the answer to a request from a place on. err is why it is resumed.
func (l *HTTP) resumeAnswer(ctx context.Context, at *place, id int64, err error) {
	answered := false
	for tries := 0; !answered && tries < resumeTries && at.lastEventID != "" && ctx.Err() == nil; tries++ {
		if !pause(ctx, at.retry, tries) {
			break
		}
		before := at.lastEventID
		body, again, failed := l.resume(ctx, at)
		if failed != nil {
			if err = failed; !again {
				break
			}
			continue
		}
		answered, err = l.readEvents(body, at, id)
		_ = body.Close()
		if at.lastEventID != before {
			tries = 0
		}
	}
	if !answered {
		l.to.Fail(id, Interrupted(err))
	}
}

// pause waits before another try. It reports false if ctx has ended.
func pause(ctx context.Context, retry time.Duration, tries int) bool {
	if retry == 0 {
		retry = resumePause << min(tries, 10)
	}
	select {
	case <-time.After(min(retry, resumePauseMax)):
		return true
	case <-ctx.Done():
		return false
	}
}

// resume requests the events after a place. again reports whether another attempt makes sense.
func (l *HTTP) resume(ctx context.Context, at *place) (body io.ReadCloser, again bool, err error) {
	r, err := l.newRequest(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, false, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if at.lastEventID != "" {
		r.Header.Set("Last-Event-ID", at.lastEventID)
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return nil, true, err
	}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp.Body, true, nil
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		l.closeWith(errForgotten)
	}
	again = resp.StatusCode >= 500 || resp.StatusCode == http.StatusConflict
	return nil, again, errors.New("the upstream answers " + resp.Status)
}

// readEvents hands over the messages of a stream until it ends or, if id is not 0, until the response to that request.
func (l *HTTP) readEvents(body io.Reader, at *place, id int64) (answered bool, err error) {
	events := sse.NewDecoder(body, nil)
	for !answered {
		e, err := events.Next()
		at.note(events)
		if err != nil {
			return false, err
		}
		if len(e.Data) > 0 && (e.Type == "" || e.Type == "message") {
			answered = l.takeEvent(bytes.Clone(e.Data), at, id)
		}
		if at.tell != nil && !answered && at.lastEventID != "" {
			session, version := l.agreed()
			at.tell(Place{id, session, version, at.lastEventID, at.questions})
		}
	}
	return true, nil
}

// takeEvent hands over the messages of an event. It reports whether the response to a request was among them.
func (l *HTTP) takeEvent(data []byte, at *place, id int64) (answered bool) {
	good := receiveText(data, func(m mcphttp.Message) {
		answered = answered || id != 0 && m.Method == "" && m.ID == wire.ID(id)
		if m.Method != "" && m.ID != "" {
			at.questions++
		}
		l.to.Receive(m, id)
	})
	if !good {
		l.to.Garbage()
		l.logger.Warn("an MCP upstream has sent an invalid message", "bytes", len(data))
	}
	return answered
}

// readSessionStream reads the messages that belong to no request, as long as the upstream offers a stream of them.
func (l *HTTP) readSessionStream() {
	var at place
	for tries := 0; l.life.Err() == nil; tries++ {
		body, again, err := l.resume(l.life, &at)
		if err != nil && !again {
			return // the upstream offers none
		}
		if err == nil {
			began := time.Now()
			_, _ = l.readEvents(body, &at, 0) // the stream is asked for again, however it ended
			_ = body.Close()
			if time.Since(began) > resumePauseMax {
				tries = 0
			}
		}
		if !pause(l.life, at.retry, tries) {
			return
		}
	}
}
