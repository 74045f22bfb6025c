package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/execution"
	"reprise/mcp/mcptask"
)

// channel is stdout or stderr in the form for a program. A model reads it as text.
type channel struct {
	text string
	// Bytes is the number of bytes that the command has written, and Omitted the number of those that are not in the
	// text.
	Bytes   int64 `json:"bytes"`
	Omitted int64 `json:"omitted,omitempty"`
	// Gone is the number of omitted bytes, the first ones, that are no longer kept.
	Gone int64 `json:"gone,omitempty"`
	// Cursor is the position from which get_execution_output reads the omitted output.
	Cursor string `json:"cursor,omitempty"`
	Binary bool   `json:"binary,omitempty"`
}

// executeOutput is the result of execute_code. Its JSON form is in the _meta of the tool result.
type executeOutput struct {
	runStatus
	// Attached: the run had been started by an earlier call with the same idempotency_key.
	Attached bool `json:"attached,omitempty"`
	// Fresh: the interpreter was made for this call, and remembers nothing from before.
	Fresh  bool    `json:"interpreter_new,omitempty"`
	Stdout channel `json:"stdout"`
	Stderr channel `json:"stderr"`
	// Missed is the number of events at the start that are no longer kept.
	Missed uint64 `json:"missed,omitempty"`
	// Cursor is the position after the last event that was looked at.
	Cursor string `json:"cursor"`

	goesOn bool // it was not waited for its end
	waited time.Duration
	bySh   bool     // it is a command, and there is no bash
	quiet  *watcher // which has seen the output, if none is shown
	images []mcp.Content
}

// execute runs something and waits for it.
func (s *Server) execute(ctx context.Context, req *mcp.CallToolRequest,
	in executeInput,
) (*mcp.CallToolResult, any, error) {
	limit, err := s.bound(in.MaxBytes)
	if err != nil {
		return nil, nil, err
	}
	if in.Quiet {
		limit = 0
	}
	wait := defaultWait
	if in.Wait != nil {
		if wait, err = longestWait("wait_seconds", *in.Wait); err != nil {
			return nil, nil, err
		}
	}
	run, err := s.start(ctx, req, toolExecute, &in.runInput, func(*execution.Request) {})
	if err != nil {
		return nil, nil, err
	}
	id := run.x.ID
	cancels := run.created && in.Key == ""
	if err := mcptask.Note(ctx, runNote{ID: id, MaxBytes: limit, Cancels: cancels}); err != nil {
		s.opts.Logger.Warn("the task of an execution cannot be resumed",
			"execution", id, "tenant", run.tenant, "error", err)
	}
	if cancels {
		// Until the answer names the run, no client could find it.
		defer context.AfterFunc(ctx, func() { s.leave(ctx, run.caller, id) })()
	}
	out, err := s.collect(ctx, run.tenant, id, limit, wait, s.watch(req, id))
	if err != nil {
		return nil, nil, err
	}
	s.noteShown(run.caller, id, out.Cursor)
	out.Attached, out.Fresh, out.bySh = !run.created, run.fresh, in.Command != "" && s.shell == "sh"
	return s.executed(ctx, run.tenant, out), nil, nil
}

// started is a run that a call has started, or that an earlier one has with the same key.
type started struct {
	caller
	x       execution.Execution
	created bool
	fresh   bool // the interpreter of its code was opened for it
}

// start starts the requested run.
func (s *Server) start(ctx context.Context, req mcp.Request, tool string, in *runInput,
	edit func(*execution.Request),
) (started, error) {
	c, err := s.enter(ctx, req, tool)
	if err == nil {
		err = c.mayStart(tool, in.Session)
	}
	if err != nil {
		return started{}, err
	}
	r, err := in.request()
	if err != nil {
		return started{}, err
	}
	edit(&r)
	if r.Command != "" {
		r.Shell = s.shell
	}
	dir, err := s.directory(ctx, req, in.Cwd)
	if err != nil {
		return started{}, err
	}
	if in.Interpreter != "" {
		run, err := s.startInside(ctx, &c, in, dir, r)
		return run, inOurWords(err, in)
	}
	r.Cwd = dir
	x, created, err := s.host.StartFor(ctx, c.who.Holder(), r)
	return started{caller: c, x: x, created: created}, inOurWords(err, in)
}

// inOurWords is an error of execution.Host.Start that names the parameters of the tools.
func inOurWords(err error, in *runInput) error {
	if in.Key != "" && errors.Is(err, reprise.ErrConflict) {
		return &explained{
			error: err, field: "idempotency_key",
			detail: "idempotency_key: another call with other arguments has had it; send those, or take another key",
		}
	}
	if busy, ok := errors.AsType[*execution.BusyError](err); ok {
		return &explained{
			error: err, field: "interpreter",
			detail: fmt.Sprintf("the interpreter runs other code, execution %s: get_execution_output with until \"end\" waits for it, "+
				"cancel_execution interrupts it", busy.Running),
		}
	}
	if field, ok := errors.AsType[*execution.FieldError](err); ok && field.Field == "timeout" {
		return &execution.FieldError{Field: "timeout_seconds", Reason: field.Reason}
	}
	return err
}

// abandonWait limits how long the cancellation of a run is retried.
const abandonWait = 10 * time.Second

// abandon cancels a run whose call was cancelled.
func (s *Server) abandon(ctx context.Context, tenant reprise.Tenant, id string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
	defer stop()
	if err := s.host.Cancel(ctx, tenant, id); err != nil {
		s.opts.Logger.Warn("the execution of a cancelled MCP call goes on", "execution", id, "tenant", tenant, "error",
			err)
	}
}

// executed is the result as a model reads it.
func (s *Server) executed(ctx context.Context, tenant reprise.Tenant, out *executeOutput) *mcp.CallToolResult {
	var b strings.Builder
	if out.bySh {
		b.WriteString("[run by sh: this machine has no bash]\n")
	}
	if out.Missed > 0 {
		fmt.Fprintf(&b, "[%d earlier events are no longer kept]\n", out.Missed)
	}
	if out.Fresh {
		b.WriteString("[a new interpreter, which remembers nothing from before]\n")
	}
	var links []mcp.Content
	if out.quiet != nil {
		out.quiet.writeQuiet(&b)
	} else {
		out.Stdout.write(&b, execution.Stdout)
		if out.Stderr.Bytes > 0 {
			b.WriteString("[stderr]\n")
			out.Stderr.write(&b, execution.Stderr)
		}
		links = s.linksTo(ctx, tenant, out)
	}
	if out.OutputTruncated {
		b.WriteString(outputLost)
	}
	b.WriteString(killedNote(out.KilledProcesses, out.KilledCommands))
	if out.goesOn {
		after := saidLongest
		if out.waited < maxWait {
			after = out.waited.Round(time.Second / 10).String()
		}
		fmt.Fprintf(&b, "[execution %s goes on after %s; get_execution_output with cursor %q reads on]",
			out.ID, after, out.Cursor)
	} else {
		fmt.Fprintf(&b, "[%s]", out.sentence())
	}
	return &mcp.CallToolResult{
		Meta:    mcp.Meta{metaExecution: out},
		Content: slices.Concat([]mcp.Content{&mcp.TextContent{Text: b.String()}}, out.images, links),
		IsError: out.isBad(),
	}
}

// outputLost is said of a run with OutputTruncated.
const outputLost = "[not all output is kept: there was too much of it, or a process that the command left behind " +
	"held it open and was ended]\n"

func (c *channel) write(b *strings.Builder, name string) {
	switch {
	case c.Binary:
		fmt.Fprintf(b, "[%s: %d bytes that are no text; get_execution_output with events reads them]\n", name, c.Bytes)
	case c.text != "":
		b.WriteString(c.text)
		if !strings.HasSuffix(c.text, "\n") {
			b.WriteString("\n")
		}
	}
}

// startOutput is the result of execute_code_async. Its JSON form is in the _meta of the tool result.
type startOutput struct {
	runStatus
	Attached bool `json:"attached,omitempty"`
	Fresh    bool `json:"interpreter_new,omitempty"`
	// Cursor is the position before the first event.
	Cursor string `json:"cursor"`
}

func (s *Server) executeAsync(ctx context.Context, req *mcp.CallToolRequest,
	in startInput,
) (*mcp.CallToolResult, any, error) {
	run, err := s.start(ctx, req, toolStart, &in.runInput, func(r *execution.Request) {
		r.StdinOpen = in.StdinOpen
		if in.TTY {
			r.TTY = &execution.TTY{}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	out := &startOutput{
		runStatus: outcomeOf(&run.x), Attached: !run.created, Fresh: run.fresh, Cursor: run.x.Window.Earliest,
	}
	return &mcp.CallToolResult{
		Meta:    mcp.Meta{metaExecution: out},
		Content: []mcp.Content{&mcp.TextContent{Text: "[" + out.sentence() + "]" + in.hint()}},
	}, nil, nil
}

// runNote is the note of a task in case its server dies.
type runNote struct {
	ID       string `json:"id"`
	MaxBytes int    `json:"max_bytes"` // 0 for a quiet call
	// Cancels is true if the run is cancelled with the call.
	Cancels bool `json:"cancels,omitempty"`
}

// ExecutionOf returns the id of the execution that the note of a task names, or "".
func ExecutionOf(note json.RawMessage) string {
	var n runNote
	_ = json.Unmarshal(note, &n) // a task without a note has no execution yet
	return n.ID
}

// resume waits for the run of a task whose server has died, and returns its result. The run has outlived the server or
// was ended as lost.
func (s *Server) resume(ctx context.Context, tenant reprise.Tenant, note json.RawMessage) (*mcp.CallToolResult, error) {
	var n runNote
	_ = json.Unmarshal(note, &n)
	if n.ID == "" {
		return nil, nil // the server died before the run was known
	}
	if n.Cancels {
		defer context.AfterFunc(ctx, func() { s.abandon(ctx, tenant, n.ID) })()
	}
	w := &watcher{every: s.opts.ProgressEvery, id: n.ID, begun: time.Now()}
	for {
		out, err := s.collect(ctx, tenant, n.ID, min(n.MaxBytes, s.opts.MaxBytes), forEnd, w)
		switch {
		case err == nil:
			return s.executed(ctx, tenant, out), nil
		case !errors.Is(err, reprise.ErrUnavailable) || backoff.Sleep(ctx, resumePause) != nil:
			return nil, s.failed(toolExecute, err)
		}
	}
}

// resumePause is the pause before a resumed call asks an unavailable store again.
const resumePause = time.Second
