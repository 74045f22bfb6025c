package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"reprise/mcp/mcphttp"
	"reprise/sse"
)

const (
	headerSession = "Mcp-Session-Id"
	headerLastID  = "Last-Event-ID"
)

func (b *relay) sessionHeaders(h http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session.id != "" {
		h.Set(headerSession, b.session.id)
	}
	if b.session.version != "" {
		h.Set("MCP-Protocol-Version", b.session.version)
	}
}

func (b *relay) sessionNumber() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session.number
}

// begin begins a session with the initialize request of the client.
func (b *relay) begin(ctx context.Context, m mcphttp.Message, answer func([]byte)) error {
	b.renewing.Lock()
	defer b.renewing.Unlock()
	return b.initialize(ctx, m, answer)
}

func (b *relay) initialize(ctx context.Context, m mcphttp.Message, answer func([]byte)) error {
	response, err := b.post(ctx, &m, false)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	message, err := responseIn(response)
	if err != nil {
		return err
	}
	var result struct {
		Version string `json:"protocolVersion"`
	}
	if message.Result != nil {
		if err := json.Unmarshal(message.Result, &result); err != nil {
			return fmt.Errorf("the answer to initialize: %w", err)
		}
		b.mu.Lock()
		if b.session.stop != nil {
			b.session.stop()
		}
		b.session = session{
			id: response.Header.Get(headerSession), version: result.Version, initialize: m,
			number: b.session.number + 1,
		}
		b.mu.Unlock()
	}
	answer(message.Raw)
	return nil
}

// responseIn is the response that an answer holds, as JSON or as the first of a stream.
func responseIn(response *http.Response) (mcphttp.Message, error) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "application/json" {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxLine))
		if err != nil {
			return mcphttp.Message{}, err
		}
		if message, err := mcphttp.ParseMessage(text); err == nil && message.Method == "" {
			return message, nil
		}
		return mcphttp.Message{}, &statusError{response.StatusCode, string(text)}
	}
	if response.StatusCode != http.StatusOK || kind != sse.ContentType {
		return mcphttp.Message{}, failure(response)
	}
	decoder := sse.NewDecoder(response.Body, nil)
	for {
		event, err := decoder.Next()
		if err != nil {
			return mcphttp.Message{}, fmt.Errorf("the answer to initialize: %w", err)
		}
		if message, err := mcphttp.ParseMessage(event.Data); err == nil && message.Method == "" {
			return message, nil
		}
	}
}

// renew begins another session in place of the session with the given number, which the server no longer knows. The
// client does not notice it, but its subscriptions and log level are lost.
func (b *relay) renew(ctx context.Context, number int) error {
	b.renewing.Lock()
	defer b.renewing.Unlock()
	b.mu.Lock()
	now := b.session
	b.mu.Unlock()
	if now.number != number {
		return nil // another goroutine has done it
	}
	if now.initialize.Method == "" {
		return errSessionGone
	}
	b.opts.Logger.Warn("the MCP server has forgotten the session; another one is begun")
	if err := b.initialize(ctx, now.initialize, func([]byte) {}); err != nil {
		return err
	}
	m, err := mcphttp.ParseMessage([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil {
		return err
	}
	response, err := b.post(ctx, &m, false)
	if err != nil {
		return err
	}
	response.Body.Close()
	b.work.Go(func() { b.listen(ctx) })
	return nil
}

// stream is a row of messages from the server, over one or several connections.
type stream struct {
	b       *relay
	request *mcphttp.Message // whose response is the last one; nil for none
	again   bool             // it may be sent again
	done    bool
	err     error  // of deliver
	last    string // the newest event id
	retry   time.Duration
	moved   bool // something came on the newest connection
}

// read writes the received messages until the response, or until the connection ends.
func (s *stream) read(body io.Reader) {
	s.moved = false
	decoder := sse.NewDecoder(body, &sse.DecoderOptions{LastEventID: s.last})
	for !s.done {
		event, err := decoder.Next()
		if retry, ok := decoder.Retry(); ok {
			s.retry = retry
		}
		if err != nil {
			return
		}
		s.moved, s.last = true, event.LastEventID
		if len(event.Data) == 0 {
			continue
		}
		message, err := mcphttp.ParseMessage(event.Data)
		if err != nil {
			s.b.opts.Logger.Warn("the MCP server sends invalid messages", "error", err)
			continue
		}
		if s.done = message.Method == "" && s.request != nil && message.ID == s.request.ID; s.done {
			s.err = s.b.deliver(s.request, &message, s.again)
		} else {
			s.b.write(message.Raw)
		}
	}
}

// resume resumes the stream at its position until the response.
func (s *stream) resume(ctx context.Context, number int) error {
	var p pauses
	for {
		if !p.wait(ctx, s.b.opts.GiveUp, s.retry) {
			return errors.New("the MCP server cannot be reached any more; whether the request was carried out is not known")
		}
		if s.b.sessionNumber() != number {
			return errors.New("the MCP server has forgotten the session; whether the request was carried out is not known")
		}
		response, err := s.get(ctx)
		if errors.Is(err, errSilent) {
			return fmt.Errorf("%w; whether the request was carried out is not known", err)
		}
		if err != nil {
			continue
		}
		if response.StatusCode == http.StatusOK {
			s.read(response.Body)
		}
		response.Body.Close()
		switch {
		case s.done:
			return s.err
		case s.moved:
			p = pauses{}
		case response.StatusCode >= 400 && response.StatusCode < 500 &&
			response.StatusCode != http.StatusTooManyRequests:
			return fmt.Errorf("%w; whether the request was carried out is not known",
				&statusError{response.StatusCode, "the answer cannot be resumed"})
		}
	}
}

// get opens a connection for the stream.
func (s *stream) get(ctx context.Context) (*http.Response, error) {
	r, err := s.b.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", sse.ContentType)
	if s.last != "" {
		r.Header.Set(headerLastID, s.last)
	}
	s.b.sessionHeaders(r.Header)
	return s.b.do(r)
}

// listen relays the messages of the server that belong to no request while the session exists.
func (b *relay) listen(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.mu.Lock()
	number := b.session.number
	if b.session.stop != nil {
		b.session.stop()
	}
	b.session.stop = stop
	b.mu.Unlock()
	s := &stream{b: b}
	for p := (pauses{}); ; {
		response, err := s.get(ctx)
		if err == nil {
			if response.StatusCode == http.StatusOK {
				s.read(response.Body)
			}
			response.Body.Close()
			switch response.StatusCode {
			case http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway,
				http.StatusGatewayTimeout:
			case http.StatusNotFound:
				if err := b.renew(ctx, number); err != nil {
					b.opts.Logger.Warn("the session with the MCP server cannot be renewed", "error", err)
				}
				return
			case http.StatusBadRequest, http.StatusGone:
				s.last = "" // the missed messages are lost; continue with new ones
			default:
				return // such as 405: the server sends no such messages
			}
			if s.moved {
				p = pauses{}
			}
		}
		if !p.wait(ctx, 1<<62, s.retry) {
			return
		}
	}
}

// leaveWait limits how long ending the session may take.
const leaveWait = 2 * time.Second

// leave ends the session.
func (b *relay) leave(ctx context.Context) {
	b.mu.Lock()
	id := b.session.id
	b.mu.Unlock()
	if id == "" {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveWait)
	defer stop()
	r, err := b.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	b.sessionHeaders(r.Header)
	if response, err := b.http.Do(r); err == nil {
		response.Body.Close()
	}
	b.http.CloseIdleConnections()
}
