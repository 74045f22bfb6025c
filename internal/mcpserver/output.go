package mcpserver

import (
	"context"
	"encoding/base64"
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

const (
	// maxWait bounds the wait of get_execution_output.
	maxWait      = 60 * time.Second
	defaultLimit = 200
	maxLimit     = 1000
)

type outputInput struct {
	ID          string  `json:"execution_id"`
	Wait        float64 `json:"wait,omitempty" jsonschema:"how many seconds to wait for output where there is none yet, 0 to 60 (default 0)"`
	Cursor      string  `json:"cursor,omitempty" jsonschema:"read what comes after this position: the cursor or an event_id of an earlier answer, or tail (default: from the beginning)"`
	LastEventID string  `json:"last_event_id,omitempty" jsonschema:"the same as cursor: the event_id of the last event that is known"`
	Limit       int     `json:"limit,omitempty" jsonschema:"how many events to return at most, 1 to 1000 (default 200)"`
	MaxBytes    int     `json:"max_bytes,omitempty" jsonschema:"how many bytes of output to return at most, 256 to 1048576 (default 30000); the first event always comes whole"`
}

// outputEvent is one event of a run.
type outputEvent struct {
	ID     string `json:"event_id" jsonschema:"the position after this event"`
	Type   string `json:"type" jsonschema:"started, stdout, stderr or end"`
	Time   string `json:"time"`
	Text   string `json:"text,omitempty" jsonschema:"the output, where it is text"`
	Base64 string `json:"base64,omitempty" jsonschema:"the output in base64, where it is no text"`
	Data   any    `json:"data,omitempty" jsonschema:"what is known of a start or an end"`
}

// truncatedOutput says what cannot be read any more.
type truncatedOutput struct {
	Missed    uint64 `json:"missed" jsonschema:"how many events are no longer kept"`
	TakenBack uint64 `json:"taken_back,omitempty" jsonschema:"how many events before the asked position the server has lost since; others come in their place"`
	Earliest  string `json:"earliest" jsonschema:"the position before the first event that is kept"`
	Reason    string `json:"reason"`
}

// endOutput is how a run has ended.
type endOutput struct {
	Outcome  string  `json:"outcome"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Signal   *string `json:"signal,omitempty"`
	Error    string  `json:"error,omitempty"`
}

type outputOutput struct {
	ID        string           `json:"execution_id"`
	Events    []outputEvent    `json:"events"`
	Cursor    string           `json:"cursor" jsonschema:"the position after the last event of this answer, for the next call"`
	HasMore   bool             `json:"has_more" jsonschema:"more can be read at once"`
	Truncated *truncatedOutput `json:"truncated,omitempty" jsonschema:"events before those of this answer are lost"`
	End       *endOutput       `json:"end,omitempty" jsonschema:"the run has ended, and this answer reaches its end"`
}

// output reads events of a run.
func (s *Server) output(ctx context.Context, req *mcp.CallToolRequest,
	in outputInput,
) (*mcp.CallToolResult, *outputOutput, error) {
	q, err := s.outputQuery(&in)
	if err != nil {
		return nil, nil, err
	}
	tenant, err := s.enter(ctx, req, identity.ScopeRead)
	if err != nil {
		return nil, nil, err
	}
	stream, err := s.host.Stream(ctx, tenant, in.ID)
	if err != nil {
		return nil, nil, err
	}
	defer s.host.Follow(tenant, in.ID)()
	out := &outputOutput{ID: in.ID, Events: []outputEvent{}}
	reader, err := out.open(ctx, stream, q.at)
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	if err := out.read(ctx, reader, q); err != nil {
		return nil, nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.transcript()}}}, out, nil
}

// outputQuery is what of the stream is asked for.
type outputQuery struct {
	at              reprise.Position
	wait            time.Duration
	limit, maxBytes int
}

func (s *Server) outputQuery(in *outputInput) (q outputQuery, err error) {
	if q.maxBytes, err = s.bound(in.MaxBytes); err != nil {
		return q, err
	}
	if q.wait, err = seconds("wait", in.Wait, maxWait.Seconds()); err != nil {
		return q, err
	}
	switch q.limit = in.Limit; {
	case q.limit == 0:
		q.limit = defaultLimit
	case q.limit < 0 || q.limit > maxLimit:
		return q, &execution.FieldError{Field: "limit", Reason: fmt.Sprintf("1 to %d are taken", maxLimit)}
	}
	q.at, err = position(in.Cursor, in.LastEventID)
	return q, err
}

// open opens a reader, after what is lost if need be. A cursor of another stream, or one beyond the end, is refused.
func (out *outputOutput) open(ctx context.Context, stream *reprise.Stream,
	at reprise.Position,
) (*reprise.Reader, error) {
	reader, err := stream.Reader(ctx, at)
	window, ok := errors.AsType[*reprise.WindowError](err)
	if ok && window.Reason != reprise.CursorAhead {
		out.lose(window)
		reader, err = stream.Reader(ctx, reprise.After(window.Resume()))
	}
	if err != nil {
		return nil, err
	}
	if info := reader.Info(); !ok && at == reprise.Earliest() && info.Earliest > 1 {
		out.Truncated = &truncatedOutput{
			Missed: info.Earliest - 1, Earliest: reader.Cursor().String(),
			Reason: reprise.CursorExpired.String(),
		}
	}
	return reader, nil
}

func (out *outputOutput) lose(window *reprise.WindowError) {
	missed, takenBack := window.Missed(), window.TakenBack()
	if out.Truncated != nil {
		missed += out.Truncated.Missed
		takenBack += out.Truncated.TakenBack
	}
	out.Truncated = &truncatedOutput{
		Missed: missed, TakenBack: takenBack, Earliest: window.Earliest.String(), Reason: window.Reason.String(),
	}
}

// read takes events until there are enough, or there are some and no more at once.
func (out *outputOutput) read(ctx context.Context, reader *reprise.Reader, q outputQuery) error {
	out.Cursor = reader.Cursor().String()
	waiting, stop := context.WithTimeout(ctx, q.wait)
	defer stop()
	room := q.maxBytes
	for {
		changed := reader.Changed()
		run, err := reader.Poll(ctx)
		window, lost := errors.AsType[*reprise.WindowError](err)
		switch {
		case errors.Is(err, reprise.ErrEnded):
			out.ended(reader)
			return nil
		case lost && len(out.Events) > 0:
			out.HasMore = true // the next call is told what is missing
			return nil
		case lost:
			out.lose(window)
			if err := reader.Seek(reprise.After(window.Resume())); err != nil {
				return err
			}
			continue
		case err != nil && len(out.Events) > 0:
			out.HasMore = true // perhaps: the next call will find out
			return nil
		case err != nil:
			return err
		}
		for e := range run.All() {
			shown := eventOf(reader.Stream(), &e)
			size := len(shown.Text) + len(shown.Base64)
			if len(out.Events) == q.limit || size > room && len(out.Events) > 0 {
				out.HasMore = true
				return nil
			}
			room -= size
			out.Events = append(out.Events, shown)
			out.Cursor = shown.ID
		}
		if run.Len() > 0 {
			continue
		}
		if len(out.Events) > 0 || q.wait == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-waiting.Done():
			return context.Cause(ctx) // nil if only the wait is over
		}
	}
}

// eventOf is an event as it is shown.
func eventOf(stream *reprise.Stream, e *reprise.Event) outputEvent {
	shown := outputEvent{
		ID: stream.Cursor(e.Seq).String(), Type: e.Type,
		Time: e.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	}
	switch {
	case e.Type != execution.Stdout && e.Type != execution.Stderr:
		if json.Valid(e.Data) {
			shown.Data = json.RawMessage(e.Data)
		}
	case isText(e.Data):
		shown.Text = string(e.Data)
	default:
		shown.Base64 = base64.StdEncoding.EncodeToString(e.Data)
	}
	return shown
}

// ended fills in the end, which the reader has reached.
func (out *outputOutput) ended(reader *reprise.Reader) {
	info := reader.Info()
	if info.End == nil {
		return
	}
	out.End = &endOutput{Outcome: info.End.Outcome}
	var said struct {
		ExitCode *int    `json:"exit_code"`
		Signal   *string `json:"signal"`
		Error    string  `json:"error"`
	}
	if json.Unmarshal(info.End.Data, &said) == nil {
		out.End.ExitCode, out.End.Signal, out.End.Error = said.ExitCode, said.Signal, said.Error
	}
}

// transcript is the answer as a model reads it.
func (out *outputOutput) transcript() string {
	var b strings.Builder
	if t := out.Truncated; t != nil {
		if t.Missed > 0 || t.TakenBack == 0 {
			fmt.Fprintf(&b, "[%d events before this are no longer kept]\n", t.Missed)
		}
		if t.TakenBack > 0 {
			fmt.Fprintf(&b, "[the server has lost the last %d events before the asked position]\n", t.TakenBack)
		}
	}
	on := ""
	for i := range out.Events {
		e := &out.Events[i]
		if e.Type != execution.Stdout && e.Type != execution.Stderr {
			continue
		}
		if e.Type != on && (on != "" || e.Type == execution.Stderr) {
			fmt.Fprintf(&b, "\n[%s]\n", e.Type)
		}
		on = e.Type
		if e.Base64 != "" {
			fmt.Fprintf(&b, "[%d bytes that are no text]",
				base64.StdEncoding.DecodedLen(len(e.Base64))-strings.Count(e.Base64, "="))
		}
		b.WriteString(e.Text)
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteString("\n")
	}
	switch {
	case out.End != nil:
		fmt.Fprintf(&b, "[execution %s has ended: %s", out.ID, out.End.Outcome)
		if out.End.ExitCode != nil {
			fmt.Fprintf(&b, ", exit code %d", *out.End.ExitCode)
		}
		b.WriteString("]")
	case out.HasMore:
		fmt.Fprintf(&b, "[there is more; cursor %q]", out.Cursor)
	default:
		fmt.Fprintf(&b, "[execution %s goes on; cursor %q]", out.ID, out.Cursor)
	}
	return b.String()
}
