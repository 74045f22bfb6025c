package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"reprise/mcphttp"
	"reprise/sse"
)

const (
	// resumeTries is how often in a row a broken answer is asked for again.
	resumeTries = 6
	// resumePause is the first time between two tries where the upstream names none, resumePauseMax the longest.
	resumePause, resumePauseMax = 200 * time.Millisecond, 10 * time.Second
)

// post is the request that carries a message.
func (l *httpLink) post(ctx context.Context, m outgoing) (*http.Request, error) {
	r, err := l.request(ctx, http.MethodPost, m.raw)
	if err != nil {
		return nil, err
	}
	if _, version := l.spoken(); version == version20260728 && m.method != "" {
		r.Header.Set("Mcp-Method", m.method)
		if name := nameInHeader(m.method, m.params); name != "" {
			r.Header.Set("Mcp-Name", encodeHeader(name))
		}
		for name, values := range m.header {
			r.Header[name] = values
		}
	}
	return r, nil
}

// nameInHeader is what the header Mcp-Name says of a request.
func nameInHeader(method string, params []byte) string {
	switch method {
	case "tools/call", "prompts/get":
		return stringMember(params, "name")
	case "resources/read":
		return stringMember(params, "uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		return stringMember(params, "taskId")
	}
	return ""
}

// encodeHeader encodes what a header cannot hold; see "Request Metadata" of version 2026-07-28.
func encodeHeader(value string) string {
	plain := !strings.HasPrefix(value, "=?base64?") && strings.TrimSpace(value) == value &&
		!slices.ContainsFunc([]byte(value), func(b byte) bool { return b < ' ' || b > '~' })
	if plain {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// place is where a stream of the upstream was read up to.
type place struct {
	id    string
	retry time.Duration
}

// stream reads the answer to a call, and asks for the rest of it where it breaks.
func (l *httpLink) stream(ctx context.Context, body io.ReadCloser, c *call) {
	var at place
	answered, err := l.events(body, &at, c)
	for tries := 0; !answered && tries < resumeTries && at.id != "" && ctx.Err() == nil; tries++ {
		if !pause(ctx, at.retry, tries) {
			break
		}
		was := at.id
		body, again, failed := l.resume(ctx, &at)
		if failed != nil {
			if err = failed; !again {
				break
			}
			continue
		}
		answered, err = l.events(body, &at, c)
		_ = body.Close()
		if at.id != was {
			tries = 0
		}
	}
	if !answered {
		l.p.fail(c, errLost(err))
	}
}

// pause waits before another try, and reports false if ctx has ended.
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

// resume asks for what comes after a place. again says that it may be tried once more.
func (l *httpLink) resume(ctx context.Context, at *place) (body io.ReadCloser, again bool, err error) {
	r, err := l.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, false, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if at.id != "" {
		r.Header.Set("Last-Event-ID", at.id)
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
		l.shut(errForgotten)
	}
	return nil, resp.StatusCode >= 500 || resp.StatusCode == http.StatusConflict, errors.New("the upstream answers " + resp.Status)
}

// events hands over the messages of a stream, until it ends or, with a call, until the response to it.
func (l *httpLink) events(body io.Reader, at *place, c *call) (answered bool, err error) {
	events := sse.NewDecoder(body, nil)
	for {
		e, err := events.Next()
		if id := events.LastEventID(); id != "" {
			at.id = id
		}
		if retry, ok := events.Retry(); ok {
			at.retry = retry
		}
		if err != nil {
			return false, err
		}
		if len(e.Data) == 0 || e.Type != "" && e.Type != "message" {
			continue
		}
		good := receiveText(bytes.Clone(e.Data), func(m mcphttp.Message) {
			answered = answered || c != nil && m.Method == "" && m.ID == upstreamID(c.up)
			l.p.receive(m, c)
		})
		if !good {
			l.g.garbage()
			l.logger.Warn("an MCP upstream has sent what is no message", "bytes", len(e.Data))
		}
		if answered {
			return true, nil
		}
	}
}

// listen reads what the upstream says of itself, for as long as it does.
func (l *httpLink) listen() {
	var at place
	for tries := 0; l.life.Err() == nil; tries++ {
		body, again, err := l.resume(l.life, &at)
		if err != nil && !again {
			return // it has nothing to say
		}
		if err == nil {
			began := time.Now()
			_, _ = l.events(body, &at, nil) // it is asked for again, whatever has ended it
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
