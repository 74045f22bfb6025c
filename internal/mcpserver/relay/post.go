package relay

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"reprise/internal/backoff"
	"reprise/mcp/mcphttp"
	"reprise/sse"
)

// errSessionGone means that the server does not know the session.
var errSessionGone = errors.New("the MCP server does not know the session")

// statusError is an answer that holds no message.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the MCP server answers with status %d: %.200s", e.status, e.text)
}

const (
	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
)

// pauses are the times between tries.
type pauses struct {
	next  backoff.Backoff
	begun time.Time // the zero Time before the first
}

// wait waits, or reports that it is too late for another try.
func (p *pauses) wait(ctx context.Context, giveUp, least time.Duration) bool {
	if p.begun.IsZero() {
		p.begun, p.next = time.Now(), backoff.Backoff{First: firstPause, Most: maxPause}
	}
	if time.Since(p.begun) > giveUp {
		return false
	}
	return backoff.Sleep(ctx, max(least, p.next.Next())) == nil
}

// post sends one message. If the server cannot be reached at all, post retries, because nothing was sent.
func (b *relay) post(ctx context.Context, m *mcphttp.Message, modern bool) (*http.Response, error) {
	var p pauses
	for {
		r, err := b.request(ctx, http.MethodPost, m.Raw)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, "+sse.ContentType)
		if modern {
			modernHeaders(r.Header, m)
		} else if m.Method != "initialize" {
			b.sessionHeaders(r.Header)
		}
		response, err := b.do(r)
		if unsent(err) && p.wait(ctx, b.opts.GiveUp, 0) {
			continue
		}
		if err == nil && response.StatusCode == http.StatusServiceUnavailable && p.wait(ctx, b.opts.GiveUp, 0) {
			response.Body.Close()
			continue
		}
		return response, err
	}
}

// errSilent means that the server accepts connections and says nothing, as a process does that was stopped.
var errSilent = errors.New("the MCP server is there and says nothing: its process may be stopped (SIGCONT lets it go on), or its machine overloaded")

// do sends a request. It gives up, also while the body is read, when nothing comes for Options.Silence.
func (b *relay) do(r *http.Request) (*http.Response, error) {
	ctx, stop := context.WithCancelCause(r.Context())
	silent := time.AfterFunc(b.opts.Silence, func() { stop(errSilent) })
	response, err := b.http.Do(r.WithContext(ctx))
	if err != nil {
		silent.Stop()
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		stop(nil)
		return nil, err
	}
	response.Body = &heardBody{ReadCloser: response.Body, silent: silent, after: b.opts.Silence, stop: stop}
	return response, nil
}

// heardBody is a body each byte of which begins the silence anew.
type heardBody struct {
	io.ReadCloser
	silent *time.Timer
	after  time.Duration
	stop   context.CancelCauseFunc
}

func (h *heardBody) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n > 0 {
		h.silent.Reset(h.after)
	}
	return n, err
}

func (h *heardBody) Close() error {
	h.silent.Stop()
	defer h.stop(nil)
	return h.ReadCloser.Close()
}

// unsent reports whether err means that nothing was sent, because there was no connection.
func unsent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

func (b *relay) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.opts.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if b.opts.Token != "" {
		r.Header.Set("Authorization", "Bearer "+b.opts.Token)
	}
	if b.opts.Directory != "" {
		r.Header.Set("Reprise-Directory", url.PathEscape(b.opts.Directory))
	}
	return r, nil
}

// modernHeaders mirrors a message in headers, as version 2026-07-28 wants it.
func modernHeaders(h http.Header, m *mcphttp.Message) {
	var params struct {
		Name   string `json:"name"`
		URI    string `json:"uri"`
		TaskID string `json:"taskId"`
		Meta   struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &params) // the server refuses values of another type
	h.Set("MCP-Protocol-Version", params.Meta.Version)
	h.Set("Mcp-Method", m.Method)
	name := ""
	switch m.Method {
	case "tools/call", "prompts/get":
		name = params.Name
	case "resources/read":
		name = params.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		name = params.TaskID
	}
	if name != "" {
		h.Set("Mcp-Name", headerText(name))
	}
}

// headerText is a value as it may stand in a header.
func headerText(value string) string {
	plain := value[0] != ' ' && value[len(value)-1] != ' '
	for i := range len(value) {
		plain = plain && value[i] >= ' ' && value[i] <= '~'
	}
	if plain && !(len(value) > 9 && value[:9] == "=?base64?") {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// tell sends a message that has no response.
func (b *relay) tell(ctx context.Context, m *mcphttp.Message, modern bool) error {
	number := b.sessionNumber()
	response, err := b.post(ctx, m, modern)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound && !modern {
		return b.renew(ctx, number)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return failure(response)
	}
	return nil
}

// failure returns the error for an answer without a response.
func failure(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	return &statusError{response.StatusCode, string(text)}
}

// errLost means that it is not known whether a request that only reads was carried out: it can be sent again.
var errLost = errors.New("the MCP server was lost during the request")

// maxSent bounds how often a request is sent.
const maxSent = 3

// call sends a request and writes the response. A request that was sent is sent again only if it just reads, or was
// refused because the server has forgotten the session.
func (b *relay) call(ctx context.Context, m *mcphttp.Message, modern bool) {
	if modern {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		b.mu.Lock()
		b.calls[m.ID] = stop
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			delete(b.calls, m.ID)
			b.mu.Unlock()
			stop()
		}()
	}
	reads := b.onlyReads(m)
	err := errSessionGone
	for sent := 1; sent <= maxSent && (errors.Is(err, errSessionGone) || errors.Is(err, errLost)); sent++ {
		err = b.exchange(ctx, m, modern, reads && sent < maxSent)
	}
	if err != nil && ctx.Err() == nil {
		b.refuse(m.ID, codeInternal, err)
	}
}

// onlyReads reports whether a request changes nothing.
func (b *relay) onlyReads(m *mcphttp.Message) bool {
	switch m.Method {
	case "ping", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/read",
		"resources/templates/list", "completion/complete", "tasks/get":
		return true
	case "tools/call":
		var params struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(m.Params, &params) // the server refuses values of another type
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.reads[params.Name]
	}
	return false
}

// deliver writes the response to a request and learns from it. It does not if the server says that it was lost and the
// request is to be sent again.
func (b *relay) deliver(m *mcphttp.Message, response *mcphttp.Message, again bool) error {
	var lost struct {
		Data struct {
			Code string `json:"code"`
		} `json:"data"`
	}
	if again && json.Unmarshal(response.Err, &lost) == nil && lost.Data.Code == "server_lost" {
		return errLost
	}
	if m.Method == "tools/list" {
		var list struct {
			Tools []struct {
				Name        string `json:"name"`
				Annotations struct {
					ReadOnly bool `json:"readOnlyHint"`
				} `json:"annotations"`
			} `json:"tools"`
		}
		_ = json.Unmarshal(response.Result, &list) // what is no list names no tool
		b.mu.Lock()
		for _, tool := range list.Tools {
			b.reads[tool.Name] = tool.Annotations.ReadOnly
		}
		b.mu.Unlock()
	}
	b.write(response.Raw)
	return nil
}

// exchange sends a request and waits for the response, over as many connections as that takes. again says that the
// request may be sent again: the error is then errLost where it is not known whether it was carried out.
func (b *relay) exchange(ctx context.Context, m *mcphttp.Message, modern, again bool) error {
	number := b.sessionNumber()
	response, err := b.post(ctx, m, modern)
	if err != nil && again && !unsent(err) && !errors.Is(err, errSilent) {
		return errLost
	}
	if err != nil && !unsent(err) {
		err = fmt.Errorf("%w; whether the request was carried out is not known", err)
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound && !modern && number > 0 {
		if err := b.renew(ctx, number); err != nil {
			return err
		}
		return errSessionGone
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "application/json" {
		return b.single(response, m, again)
	}
	if response.StatusCode != http.StatusOK || kind != sse.ContentType {
		return failure(response)
	}
	s := &stream{b: b, request: m, again: again}
	if s.read(response.Body); s.done {
		return s.err
	}
	if again && (modern || s.last == "") {
		return errLost
	}
	if modern || s.last == "" {
		return errors.New("the connection to the MCP server broke before the response, and cannot be resumed; whether the request was carried out is not known")
	}
	err = s.resume(ctx, number)
	if err != nil && again && !errors.Is(err, errSilent) {
		return errLost
	}
	return err
}

// single writes an answer that is one message.
func (b *relay) single(response *http.Response, m *mcphttp.Message, again bool) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxLine))
	if err != nil {
		return err
	}
	message, err := mcphttp.ParseMessage(text)
	if err != nil || message.Method != "" {
		return &statusError{response.StatusCode, string(text)}
	}
	if message.ID != m.ID { // an error that was found before the request was read
		var e struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		_ = json.Unmarshal(text, &e) // it was parsed before
		return &statusError{response.StatusCode, e.Error.Message}
	}
	return b.deliver(m, &message, again)
}
