package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/problem"
)

// The shapes of the first sandbox server: a call of get_execution_output whose wait is a boolean, whose cursor is an
// integer or that has a last_event_id, be it null, is answered with the names and values that its clients know, as
// structured content and as text in JSON.

// sandboxEvent is an event as that server has it.
type sandboxEvent struct {
	ID   string `json:"event_id"`
	Type string `json:"type"`
	// Data is the output. Output that is not text is in Base64, and Data is empty.
	Data   string  `json:"data"`
	Base64 string  `json:"base64,omitempty"`
	TS     float64 `json:"ts"`
}

// sandboxOutput is an answer as that server has it.
type sandboxOutput struct {
	Status   string         `json:"status"`
	ExitCode *int           `json:"exit_code"`
	Output   []sandboxEvent `json:"output"`
	// NextCursor is the number of events up to the last one of Output, for the next call.
	NextCursor uint64           `json:"next_cursor"`
	HasMore    bool             `json:"has_more"`
	Matched    bool             `json:"matched,omitempty"`
	Truncated  *truncatedOutput `json:"truncated,omitempty"`
	// Error is why it did not start, or that the event to go on from is gone; Code is then the code of the errors.
	Error string       `json:"error,omitempty"`
	Code  problem.Code `json:"code,omitempty"`
}

// isCursorRefused reports whether an event cannot be gone on from.
func isCursorRefused(err error) bool {
	_, outside := errors.AsType[*reprise.WindowError](err)
	return outside || errors.Is(err, reprise.ErrCursorMalformed) || errors.Is(err, reprise.ErrCursorForeign)
}

// eventGone is the error for an event that is not one of the kept ones, as that server has it.
func eventGone(id string) string { return fmt.Sprintf("Event ID %s not found", shorten(id)) }

// sandboxRefusal is the result for an event that cannot be gone on from.
func sandboxRefusal(id string, why error) (*mcp.CallToolResult, any, error) {
	refused := problem.From(why)
	out := map[string]any{
		"error": eventGone(id), "output": []sandboxEvent{}, "code": refused.Code, "detail": refused.Detail,
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, out, nil
}

// unbounded sets the limits of a call that names none: that server has none.
func (q *outputQuery) unbounded(in *outputInput) {
	if in.Limit == 0 {
		q.limit = 10 * maxLimit
	}
	if in.MaxBytes == 0 {
		q.maxBytes = maxBytes
	}
}

// sandboxAnswer is the result of the tool in that form.
func (s *Server) sandboxAnswer(ctx context.Context, tenant reprise.Tenant, p *page, after string) (
	*mcp.CallToolResult, any, error,
) {
	x, err := s.host.Show(ctx, tenant, p.facts.ID)
	if err != nil {
		return nil, nil, err
	}
	out := &sandboxOutput{
		Status: sandboxStatus(&x), ExitCode: x.ExitCode, Output: []sandboxEvent{}, NextCursor: p.tail,
		HasMore: p.facts.HasMore, Matched: p.facts.Matched, Truncated: p.facts.Truncated, Error: x.Error,
	}
	if p.facts.End == nil && !p.facts.HasMore { // it has ended since, and its clients stop at any other status
		out.Status, out.ExitCode = "running", nil
	}
	if p.facts.Truncated != nil && after != "" {
		out.Error, out.Code = eventGone(after), problem.Code(p.facts.Truncated.Reason)
	}
	for i := range p.events {
		e := &p.events[i]
		if e.Type != execution.Stdout && e.Type != execution.Stderr {
			continue // status and exit_code are outside of output
		}
		out.Output = append(out.Output, sandboxEvent{
			ID: e.ID, Type: e.Type, Data: e.Text, Base64: e.Base64,
			TS: float64(e.at.UnixMicro()) / float64(time.Second/time.Microsecond),
		})
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, out, nil
}

// sandboxStatus is how a run is in the words of that server.
func sandboxStatus(x *execution.Execution) string {
	switch x.Outcome {
	case "":
		return "running"
	case execution.Exited:
		return "completed"
	case execution.TimedOut:
		return "timeout"
	case execution.Cancelled:
		return "cancelled"
	}
	return "failed"
}
