package mcpserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
)

type stdinInput struct {
	ID     string   `json:"execution_id"`
	Text   string   `json:"text,omitempty" jsonschema:"a line ends with a line feed"`
	Base64 string   `json:"base64,omitempty" jsonschema:"in place of text"`
	EOF    bool     `json:"eof,omitempty" jsonschema:"close stdin afterwards"`
	Offset *int64   `json:"offset,omitempty" jsonschema:"bytes written before this, so that the call can be sent again (default: at the end)"`
	Wait   *float64 `json:"wait,omitempty" jsonschema:"then return the output, as get_execution_output does"`
	Match  string   `json:"match,omitempty" jsonschema:"the same, up to this text, such as a prompt"`
	Until  string   `json:"until,omitempty" jsonschema:"the same"`
	Cursor string   `json:"cursor,omitempty" jsonschema:"the same, from here on (default: what no answer has shown yet)"`
}

type stdinOutput struct {
	ID     string `json:"execution_id"`
	Offset int64  `json:"offset"` // total number of bytes given to the command
	Open   bool   `json:"open"`   // more can be written
	Whole  bool   `json:"whole"`  // the command was given all of this; the rest can be sent again from offset
}

// stdinWait limits how long a command may take to read.
const stdinWait = 10 * time.Second

func (s *Server) stdin(ctx context.Context, req *mcp.CallToolRequest, in stdinInput) (*mcp.CallToolResult, any, error) {
	c, err := s.enterFor(ctx, req, toolStdin, in.ID)
	if err != nil {
		return nil, nil, err
	}
	w, err := in.write()
	if err != nil {
		return nil, nil, err
	}
	if in.Wait != nil || in.Match != "" || in.Until != "" || in.Cursor != "" {
		return s.converse(ctx, req, &in, w)
	}
	out, err := s.writeStdin(ctx, c, in.ID, w)
	if err != nil {
		return nil, nil, err
	}
	said := fmt.Sprintf("execution %s has been given %d bytes in all", in.ID, out.Offset)
	if !out.Whole {
		said += "; it does not read the rest, which can be sent again"
	}
	return facts(said, out), nil, nil
}

// write returns what is to be written.
func (in *stdinInput) write() (w execution.StdinWrite, err error) {
	data, err := base64.StdEncoding.DecodeString(in.Base64)
	switch {
	case err != nil:
		return w, &execution.FieldError{Field: "base64", Reason: err.Error()}
	case in.Text != "" && in.Base64 != "":
		return w, &execution.FieldError{Field: "base64", Reason: "text is given too"}
	case in.Text != "":
		data = []byte(in.Text)
	}
	w = execution.StdinWrite{Offset: -1, Data: bytes.NewReader(data), EOF: in.EOF}
	if in.Offset != nil {
		w.Offset = *in.Offset
	}
	if w.Offset < -1 {
		return w, &execution.FieldError{Field: "offset", Reason: "it is negative"}
	}
	return w, nil
}

func (s *Server) writeStdin(ctx context.Context, c caller, id string, w execution.StdinWrite) (*stdinOutput, error) {
	writing, stop := context.WithTimeout(ctx, stdinWait)
	defer stop()
	state, err := s.host.WriteStdin(writing, c.tenant, id, w)
	late := err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	if err != nil && !late {
		return nil, s.unwritable(ctx, c, id, err)
	}
	return &stdinOutput{ID: id, Offset: state.Offset, Open: state.Open, Whole: !late}, nil
}

// unwritable adds to the error of a run that takes no input how to continue. It returns other errors unchanged.
func (s *Server) unwritable(ctx context.Context, c caller, id string, err error) error {
	if !errors.Is(err, reprise.ErrEnded) {
		return s.unknown(ctx, c, id, err)
	}
	x, showErr := s.host.Show(ctx, c.tenant, id)
	if showErr != nil {
		return err
	}
	st := statusOf(&x)
	detail := st.sentence()
	if x.Status != execution.StatusEnded {
		detail = "its stdin is closed; execute_code_async with stdin_open starts a run that can be written to"
	}
	return &explained{error: err, field: "execution_id", detail: detail}
}

// converse writes to a run, and returns the output that comes then. It saves a model every second call of a
// conversation with a debugger.
func (s *Server) converse(ctx context.Context, req *mcp.CallToolRequest, in *stdinInput,
	w execution.StdinWrite,
) (*mcp.CallToolResult, any, error) {
	asked := outputInput{ID: in.ID, Match: in.Match, Until: in.Until, Cursor: cursorArg{text: in.Cursor}}
	if in.Wait != nil {
		asked.Wait = waitArg{given: true, seconds: *in.Wait}
	}
	c, err := s.enterFor(ctx, req, toolOutput, in.ID)
	if err != nil {
		return nil, nil, err
	}
	if in.Cursor == "" {
		if asked.Cursor.text, _ = s.shown.Load(shownTo{c.tenant, c.who.Name, in.ID}); asked.Cursor.text == "" {
			asked.Cursor.text = "tail"
		}
	}
	r, err := s.openOutput(ctx, req, c, &asked)
	if err != nil {
		return nil, nil, err
	}
	defer r.close()
	r.page.q.wantedAfter = r.Info().Tail // an earlier prompt does not answer what is written now
	wrote, err := s.writeStdin(ctx, c, in.ID, w)
	if err != nil {
		return nil, nil, err
	}
	r.page.facts.Stdin = wrote
	if err := r.page.read(ctx, r.Reader); err != nil {
		// What was written must not look as if it was not: a model would write it again.
		said := fmt.Sprintf("execution %s has been given %d bytes in all; its output could not be read: %v",
			in.ID, wrote.Offset, err)
		return facts(said, wrote), nil, nil
	}
	s.noteShown(c, r.page.facts.ID, r.page.facts.Cursor)
	return r.page.answer(r.Reader)
}
