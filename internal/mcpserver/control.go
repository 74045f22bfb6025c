package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
)

type idInput struct {
	ID string `json:"execution_id"`
}

func (s *Server) status(ctx context.Context, req *mcp.CallToolRequest,
	in idInput,
) (*mcp.CallToolResult, any, error) {
	c, err := s.enterFor(ctx, req, toolStatus, in.ID)
	if err != nil {
		return nil, nil, err
	}
	return s.show(ctx, c, in.ID, false)
}

// show describes a run, which has been cancelled or not.
func (s *Server) show(ctx context.Context, c caller, id string, cancelled bool) (*mcp.CallToolResult, any, error) {
	x, err := s.host.Show(ctx, c.tenant, id)
	if err != nil {
		return nil, nil, s.unknown(ctx, c, id, err)
	}
	st := statusOf(&x)
	said := fmt.Sprintf("%s; %d bytes on stdout, %d on stderr", st.line(), st.StdoutBytes, st.StderrBytes)
	if cancelled && x.Status != execution.StatusEnded {
		said += "; it has been told to end, and is killed if it does not"
	}
	return facts(said, &st), nil, nil
}

// facts is a result with text for a model and data for a program.
func facts(text string, data any) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Meta: mcp.Meta{metaExecution: data}, Content: []mcp.Content{&mcp.TextContent{Text: text}},
	}
}

type cancelInput struct {
	ID   string  `json:"execution_id"`
	Wait float64 `json:"wait,omitempty" jsonschema:"seconds to wait for its end, 0 to 50 (default 10)"`
}

// cancel ends a run, and waits a little for that.
func (s *Server) cancel(ctx context.Context, req *mcp.CallToolRequest,
	in cancelInput,
) (*mcp.CallToolResult, any, error) {
	c, err := s.enterFor(ctx, req, toolCancel, in.ID)
	if err != nil {
		return nil, nil, err
	}
	wait, err := longestWait("wait", in.Wait)
	if err != nil {
		return nil, nil, err
	}
	if !given(req, "wait") {
		wait = 10 * time.Second
	}
	if err := s.host.Cancel(ctx, c.tenant, in.ID); err != nil {
		return nil, nil, s.unknown(ctx, c, in.ID, err)
	}
	if err := s.await(ctx, c.tenant, in.ID, wait); err != nil {
		return nil, nil, err
	}
	return s.show(ctx, c, in.ID, true)
}

// await waits for the end of a run, or until the time is over.
func (s *Server) await(ctx context.Context, tenant reprise.Tenant, id string, wait time.Duration) error {
	stream, err := s.host.Stream(ctx, tenant, id)
	if err != nil {
		return err
	}
	reader, err := stream.Reader(ctx, reprise.Tail())
	if err != nil {
		return err
	}
	defer reader.Close()
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	for {
		changed := reader.Changed()
		if info := reader.Info(); info.End != nil {
			return nil
		}
		select {
		case <-changed:
		case <-waiting.Done():
			return context.Cause(ctx)
		}
	}
}

type listInput struct {
	Session string            `json:"session,omitempty" jsonschema:"only these"`
	Status  string            `json:"status,omitempty" jsonschema:"queued, running or ended"`
	Labels  map[string]string `json:"labels,omitempty" jsonschema:"only runs with them"`
	Limit   int               `json:"limit,omitempty" jsonschema:"1 to 100 (default 20)"`
	Cursor  string            `json:"cursor,omitempty" jsonschema:"next_cursor of the page before"`
}

type listOutput struct {
	Executions []runStatus `json:"executions"`
	NextCursor string      `json:"next_cursor,omitempty"`
}

// listLimits are the default and the maximum number of runs on a page.
const (
	listDefault = 20
	listMax     = 100
)

func (s *Server) list(ctx context.Context, req *mcp.CallToolRequest,
	in listInput,
) (*mcp.CallToolResult, any, error) {
	c, err := s.enter(ctx, req, toolList)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case in.Limit == 0:
		in.Limit = listDefault
	case in.Limit < 0 || in.Limit > listMax:
		return nil, nil, &execution.FieldError{Field: "limit", Reason: fmt.Sprintf("1 to %d are taken", listMax)}
	}
	page, err := s.listFor(ctx, &c, execution.ListQuery{
		Session: in.Session, Status: in.Status, Labels: in.Labels, Limit: in.Limit, After: in.Cursor,
	})
	_, named := errors.AsType[*execution.FieldError](err)
	if !named && in.Cursor != "" && errors.Is(err, reprise.ErrInvalid) {
		err = &execution.FieldError{
			Field: "cursor", Reason: "it is not that of an answer; leave it out for the newest runs",
		}
	}
	if err != nil {
		return nil, nil, err
	}
	out := &listOutput{Executions: []runStatus{}, NextCursor: page.Next}
	var b strings.Builder
	for i := range page.Executions {
		st := statusOf(&page.Executions[i])
		out.Executions = append(out.Executions, st)
		b.WriteString(st.line() + "\n")
	}
	switch {
	case len(out.Executions) == 0:
		b.WriteString("[there are none]")
	case page.Next != "":
		fmt.Fprintf(&b, "[there are more; cursor %q]", page.Next)
	default:
		b.WriteString("[that is all]")
	}
	return facts(b.String(), out), nil, nil
}
