// Package relay lets a client of the Model Context Protocol that speaks stdio use a server that speaks Streamable HTTP.
// On versions with sessions it resumes: a connection that breaks in the middle of an answer costs nothing but time.
//
//	err := relay.Run(ctx, os.Stdin, os.Stdout, &relay.Options{URL: "http://127.0.0.1:7070/mcp"})
package relay

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"reprise/mcp/mcphttp"
)

// Options are the settings of Run. The zero value of each field means its default.
type Options struct {
	// URL is the URL of the server's endpoint. It is required.
	URL string
	// Token is sent as a bearer token. Default: none.
	Token string
	// Directory is sent with each request as the directory of the client, where runs work that name no other; see
	// mcpserver.DirectoryHeader. Default: none, which is the server's.
	Directory string
	// HTTPClient makes the requests. Default: a client without a timeout.
	HTTPClient *http.Client
	// GiveUp limits how long a server that cannot be reached is retried before a request is answered with an error.
	// Default: 1 minute.
	GiveUp time.Duration
	// Silence is after how long without a byte a server counts as stopped: it sends a heartbeat every 15 s. Default:
	// 45 s.
	Silence time.Duration
	// Logger logs errors. Default: silent.
	Logger *slog.Logger
}

// maxLine is the longest message, in bytes.
const maxLine = 16 << 20

// relay is between one client and one server.
type relay struct {
	opts Options
	http *http.Client
	work sync.WaitGroup

	writing sync.Mutex // held while a line is written
	out     io.Writer
	broken  context.CancelCauseFunc // the client cannot be written to

	renewing sync.Mutex // held while a session is begun

	mu      sync.Mutex
	session session
	calls   map[mcphttp.ID]context.CancelFunc // on versions without sessions
	reads   map[string]bool                   // the tools that say that they only read
}

// session is the negotiated state with the server, on versions with sessions.
type session struct {
	id, version string
	initialize  mcphttp.Message // what to begin another one with
	number      int             // counts them
	stop        context.CancelFunc
}

// Run relays messages until in ends, when it returns nil, ctx is done, when it returns the cause, or out fails. It then
// ends the session. The goroutine that reads in ends only when in ends.
func Run(ctx context.Context, in io.Reader, out io.Writer, opts *Options) error {
	b := &relay{opts: *opts, out: out, calls: map[mcphttp.ID]context.CancelFunc{}, reads: map[string]bool{}}
	if b.opts.GiveUp == 0 {
		b.opts.GiveUp = time.Minute
	}
	b.opts.Silence = cmp.Or(b.opts.Silence, 45*time.Second)
	if b.opts.Logger == nil {
		b.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if b.http = b.opts.HTTPClient; b.http == nil {
		b.http = &http.Client{CheckRedirect: func(*http.Request,
			[]*http.Request,
		) error {
			return http.ErrUseLastResponse
		}}
	}
	running, stop := context.WithCancelCause(ctx)
	b.broken = stop
	lines := make(chan []byte)
	read := make(chan error, 1)
	go func() { read <- scan(running, in, lines) }()
	err := b.carry(running, lines, read)
	stop(context.Canceled)
	b.work.Wait()
	b.leave(ctx)
	return err
}

// carry relays one message after the other.
func (b *relay) carry(ctx context.Context, lines <-chan []byte, read <-chan error) error {
	for {
		select {
		case line := <-lines:
			b.take(ctx, line)
		case err := <-read:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func scan(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		select {
		case lines <- bytes.Clone(line):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return scanner.Err()
}

// take takes a message of the client. What must come in order is sent before it returns.
func (b *relay) take(ctx context.Context, line []byte) {
	m, err := mcphttp.ParseMessage(line)
	if err != nil {
		b.refuse(m.ID, codeInvalidRequest, err)
		return
	}
	modern := isModern(&m)
	switch {
	case m.Method == "initialize" && !modern:
		if err := b.begin(ctx, m, func(response []byte) { b.write(response) }); err != nil {
			b.refuse(m.ID, codeInternal, err)
		}
	case m.Method == "" || m.ID == "":
		if modern && m.Method == "notifications/cancelled" {
			b.cancel(&m)
			return
		}
		if err := b.tell(ctx, &m, modern); err != nil {
			b.opts.Logger.Warn("a message does not reach the MCP server", "method", m.Method, "error", err)
		}
		if m.Method == "notifications/initialized" && !modern {
			b.work.Go(func() { b.listen(ctx) })
		}
	default:
		b.work.Go(func() { b.call(ctx, &m, modern) })
	}
}

// cancel ends the request that a notification names: on versions without sessions that is to close its connection.
func (b *relay) cancel(m *mcphttp.Message) {
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &params) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if stop := b.calls[mcphttp.ID(params.RequestID)]; stop != nil {
		stop()
	}
}

// write writes a message to the client.
func (b *relay) write(message []byte) {
	b.writing.Lock()
	defer b.writing.Unlock()
	line := append(bytes.ReplaceAll(bytes.ReplaceAll(message, []byte("\n"), []byte(" ")), []byte("\r"), []byte(" ")),
		'\n')
	if _, err := b.out.Write(line); err != nil {
		b.broken(fmt.Errorf("write to the client: %w", err))
	}
}

const (
	codeInvalidRequest = -32600
	codeInternal       = -32603
)

// refuse answers a request with an error of ours.
func (b *relay) refuse(id mcphttp.ID, code int, err error) {
	if id == "" {
		id = "null"
	}
	message, merr := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": json.RawMessage(id), "error": map[string]any{"code": code, "message": err.Error()},
	})
	if merr != nil {
		b.opts.Logger.Error("an error cannot be reported", "error", merr)
		return
	}
	b.write(message)
}

// isModern reports whether m is of a version without sessions.
func isModern(m *mcphttp.Message) bool {
	var params struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	return json.Unmarshal(m.Params, &params) == nil && params.Meta.Version >= "2026-07-28"
}
