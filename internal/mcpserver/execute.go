package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
)

// channel is what is shown of stdout or stderr.
type channel struct {
	Text    string `json:"text" jsonschema:"the output; where bytes are left out a note says so"`
	Bytes   int64  `json:"bytes" jsonschema:"how many bytes there are in all"`
	Omitted int64  `json:"omitted,omitempty" jsonschema:"how many of them are not in text"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"from where get_execution_output reads what is left out"`
	Binary  bool   `json:"binary,omitempty" jsonschema:"the output is no text, and all of it left out"`
}

// executeOutput is the result of execute_code.
type executeOutput struct {
	runStatus
	Attached bool    `json:"attached,omitempty" jsonschema:"the run had been started by an earlier call with the same idempotency_key"`
	Stdout   channel `json:"stdout"`
	Stderr   channel `json:"stderr"`
	Missed   uint64  `json:"missed,omitempty" jsonschema:"how many of the first events are no longer kept, and their output not shown"`
	Cursor   string  `json:"cursor" jsonschema:"the position after the last event"`
}

// execute runs something and waits for it.
func (s *Server) execute(ctx context.Context, req *mcp.CallToolRequest,
	in executeInput,
) (*mcp.CallToolResult, *executeOutput, error) {
	limit, err := s.bound(in.MaxBytes)
	if err != nil {
		return nil, nil, err
	}
	tenant, x, created, err := s.start(ctx, req, &in.runInput, func(*execution.Request) {})
	if err != nil {
		return nil, nil, err
	}
	if created && in.Key == "" {
		// Nobody could find it again.
		defer context.AfterFunc(ctx, func() { s.abandon(ctx, tenant, x.ID) })()
	}
	w := s.watch(ctx, req, x.ID)
	out, err := s.collect(ctx, tenant, x.ID, limit, w)
	if err != nil {
		return nil, nil, err
	}
	out.Attached = !created
	return s.executed(out), out, nil
}

// start starts what in asks for.
func (s *Server) start(ctx context.Context, req mcp.Request, in *runInput,
	edit func(*execution.Request),
) (reprise.Tenant, execution.Execution, bool, error) {
	tenant, err := s.enter(ctx, req, identity.ScopeRun)
	if err != nil {
		return "", execution.Execution{}, false, err
	}
	r, err := in.request()
	if err != nil {
		return "", execution.Execution{}, false, err
	}
	edit(&r)
	x, created, err := s.host.Start(ctx, tenant, r)
	return tenant, x, created, err
}

// abandonWait bounds how long a run is tried to be cancelled.
const abandonWait = 10 * time.Second

// abandon cancels a run whose call was cancelled; a server that stops says itself what becomes of its runs.
func (s *Server) abandon(ctx context.Context, tenant reprise.Tenant, id string) {
	if errors.Is(context.Cause(ctx), reprise.ErrClosed) {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
	defer stop()
	if err := s.host.Cancel(ctx, tenant, id); err != nil {
		s.opts.Logger.Warn("the execution of a cancelled MCP call goes on", "execution", id, "tenant", tenant, "error",
			err)
	}
}

// collect follows a run to its end, and keeps what is to be shown.
func (s *Server) collect(ctx context.Context, tenant reprise.Tenant, id string, limit int,
	w *watcher,
) (*executeOutput, error) {
	stream, err := s.host.Stream(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	defer s.host.Follow(tenant, id)()
	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	out := &executeOutput{}
	info := reader.Info()
	out.Missed = info.Earliest - 1
	stdout, stderr := newClip(limit), newClip(limit)
	for {
		run, err := w.next(ctx, reader)
		if errors.Is(err, errAtEnd) {
			break
		}
		if window, ok := errors.AsType[*reprise.WindowError](err); ok {
			out.Missed += window.Missed()
			if window.Reason == reprise.EpochChanged { // some of the output is no longer that of the run: read it anew
				stdout, stderr = newClip(limit), newClip(limit)
				out.Missed = window.Earliest.Seq
			}
			err = reader.Seek(reprise.After(window.Earliest))
		}
		if errors.Is(err, reprise.ErrUnavailable) && pause(ctx, storePause) == nil {
			continue // the run goes on, and so do we
		}
		if err != nil {
			return nil, err
		}
		for e := range run.All() {
			switch e.Type {
			case execution.Stdout:
				stdout.add(e.Seq, e.Data)
			case execution.Stderr:
				stderr.add(e.Seq, e.Data)
			}
			w.saw(&e)
		}
	}
	x, err := s.host.Show(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	out.runStatus, out.Cursor = statusOf(&x), reader.Cursor().String()
	n, m := share(limit, stdout.total, stderr.total)
	out.Stdout, out.Stderr = channelOf(stdout, n, stream, id), channelOf(stderr, m, stream, id)
	return out, nil
}

// storePause is how long a store is given that cannot answer.
const storePause = 250 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func channelOf(c *clip, n int, stream *reprise.Stream, id string) channel {
	s := c.show(n, noteOf(stream, id))
	ch := channel{Text: s.text, Bytes: s.bytes, Omitted: s.omitted, Binary: s.binary}
	if s.omitted > 0 {
		ch.Cursor = stream.Cursor(s.after).String()
	}
	return ch
}

// executed is the result as a model reads it.
func (s *Server) executed(out *executeOutput) *mcp.CallToolResult {
	var b strings.Builder
	if out.Missed > 0 {
		fmt.Fprintf(&b, "[%d earlier events are no longer kept]\n", out.Missed)
	}
	out.Stdout.write(&b, execution.Stdout)
	if out.Stderr.Bytes > 0 {
		b.WriteString("[stderr]\n")
		out.Stderr.write(&b, execution.Stderr)
	}
	fmt.Fprintf(&b, "[%s]", out.sentence())
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: b.String()}}, IsError: out.isBad()}
	for _, c := range []struct {
		name string
		*channel
	}{{execution.Stdout, &out.Stdout}, {execution.Stderr, &out.Stderr}} {
		if c.Omitted > 0 {
			result.Content = append(result.Content, linkTo(out.ID, c.name, c.Bytes))
		}
	}
	return result
}

func (c *channel) write(b *strings.Builder, name string) {
	switch {
	case c.Binary:
		fmt.Fprintf(b, "[%s: %d bytes that are no text]\n", name, c.Bytes)
	case c.Text != "":
		b.WriteString(c.Text)
		if !strings.HasSuffix(c.Text, "\n") {
			b.WriteString("\n")
		}
	}
}

// startOutput is the result of execute_code_async.
type startOutput struct {
	runStatus
	Attached bool   `json:"attached,omitempty" jsonschema:"the run had been started by an earlier call with the same idempotency_key"`
	Cursor   string `json:"cursor" jsonschema:"the position before the first event, for get_execution_output"`
}

func (s *Server) executeAsync(ctx context.Context, req *mcp.CallToolRequest,
	in startInput,
) (*mcp.CallToolResult, *startOutput, error) {
	_, x, created, err := s.start(ctx, req, &in.runInput, func(r *execution.Request) {
		r.StdinOpen = in.StdinOpen
		if in.TTY {
			r.TTY = &execution.TTY{}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	out := &startOutput{runStatus: statusOf(&x), Attached: !created, Cursor: x.Window.Earliest}
	said := out.sentence() + ". Its output is read with get_execution_output."
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, out, nil
}

// runNote is what a task keeps for the case that its server dies.
type runNote struct {
	ID       string `json:"id"`
	MaxBytes int    `json:"max_bytes"`
}

// lostPoll is the time between two looks whether a run has been ended that was lost with its server.
const lostPoll = 100 * time.Millisecond

// lost says what came of a call of execute_code whose server has died. The run has died with it, unless it is that of
// another replica.
func (s *Server) lost(ctx context.Context, tenant reprise.Tenant, note json.RawMessage) (*mcp.CallToolResult, error) {
	var n runNote
	if err := json.Unmarshal(note, &n); err != nil {
		return nil, errors.New("the server died before the execution was known")
	}
	for {
		x, err := s.host.Show(ctx, tenant, n.ID)
		if err != nil {
			return nil, s.failed(toolExecute, err)
		}
		if x.Status == execution.StatusEnded {
			break
		}
		if pause(ctx, lostPoll) != nil {
			said := fmt.Sprintf("[the server of this task died; execution %s is %s, and its output is read with get_execution_output]", x.ID, x.Status)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}, IsError: true}, nil
		}
	}
	out, err := s.collect(ctx, tenant, n.ID, min(n.MaxBytes, s.opts.MaxBytes), &watcher{})
	if err != nil {
		return nil, s.failed(toolExecute, err)
	}
	result := s.executed(out)
	result.StructuredContent = out
	return result, nil
}
