package mcpserver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
)

// The shapes of the first sandbox server: a call of get_execution_output whose wait is a boolean or whose cursor is an
// integer is answered with the names and values that its clients know, as structured content and as text in JSON.

// sandboxEvent is an event as that server has it.
type sandboxEvent struct {
	ID   string `json:"event_id"`
	Type string `json:"type"`
	// Data is the output, or "" for other events. Output that is not text is in Base64, and Data is empty.
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
	Error      string           `json:"error,omitempty"`
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
func (s *Server) sandboxAnswer(ctx context.Context, tenant reprise.Tenant, p *page) (*mcp.CallToolResult, any, error) {
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
	for i := range p.events {
		e := &p.events[i]
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
	if x.Outcome == nil {
		return "running"
	}
	switch *x.Outcome {
	case execution.Exited:
		return "completed"
	case execution.TimedOut:
		return "timeout"
	case execution.Cancelled:
		return "cancelled"
	}
	return "failed"
}
