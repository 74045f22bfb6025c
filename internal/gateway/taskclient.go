package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// taskClient is the client of a call that may become a task.
type taskClient struct {
	ctx      context.Context
	x        *mcphttp.Exchange
	response mcphttp.Message
	said     time.Time // when the task got its last message

	// principal is whose call it is.
	principal string
	mu        sync.Mutex
	place     link.Place // in the upstream's answer; zero if that cannot be resumed
	noted     time.Time  // when the note of the task got its last place
	replied   int        // questions of the upstream that it has an answer to
}

// sayEvery is the least time between two messages of a task.
const sayEvery = time.Second

// Notify sends a notification while the call is not a task. For a task, the message of a progress notification becomes
// the status message.
func (t *taskClient) Notify(message []byte) error {
	task := mcptask.FromContext(t.ctx)
	if task == nil {
		return t.x.Notify(message)
	}
	m, err := mcphttp.ParseMessage(message)
	if err != nil || m.Method != wire.NoteProgress || time.Since(t.said) < sayEvery {
		return err
	}
	text := wire.Text(m.Params, "message")
	if text == "" {
		return nil
	}
	t.said = time.Now()
	return task.Say(t.ctx, text)
}

// Respond keeps the response for outcome.
func (t *taskClient) Respond(_ mcphttp.ID, message []byte) (err error) {
	t.response, err = mcphttp.ParseMessage(message)
	return err
}

// Ask turns the call into a task that asks the client.
func (t *taskClient) Ask(id mcphttp.ID, message []byte, answer func([]byte)) error {
	m, err := mcphttp.ParseMessage(message)
	if err != nil {
		return err
	}
	question, err := parseQuestion(&m)
	if err != nil {
		return err
	}
	task, err := mcptask.Begin(t.ctx)
	if err != nil {
		return err
	}
	if task == nil {
		return errors.New("the call cannot become a task")
	}
	go func() {
		answers, err := task.Ask(t.ctx, mcp.InputRequestMap{"1": question})
		if err != nil && t.stays(context.Cause(t.ctx)) {
			return // who resumes the call asks again
		}
		defer t.reply()
		if err != nil {
			answer(wire.Response(id, nil, wire.Internal(wire.ReasonNoAnswer, err.Error()).JSON()))
			return
		}
		answer(wire.Response(id, wire.Compact(answers["1"]), nil))
	}()
	return nil
}

// parseQuestion returns a request of the upstream as the SDK represents it.
func parseQuestion(m *mcphttp.Message) (mcp.InputRequest, error) {
	var question mcp.InputRequest
	switch m.Method {
	case "elicitation/create":
		question = &mcp.ElicitParams{}
	case "sampling/createMessage":
		//lint:ignore SA1019 older versions have it
		question = &mcp.CreateMessageParams{}
	case "roots/list":
		//lint:ignore SA1019 older versions have it
		question = &mcp.ListRootsParams{}
	default:
		return nil, fmt.Errorf("no client can be asked for %s", m.Method)
	}
	if m.Params == nil {
		return question, nil
	}
	return question, json.Unmarshal(m.Params, question)
}

// result returns the response as a handler returns it.
func (t *taskClient) result() (*mcp.CallToolResult, error) {
	if t.response.Err != nil {
		e := &jsonrpc.Error{}
		if err := json.Unmarshal(t.response.Err, e); err != nil {
			return nil, err
		}
		return nil, e
	}
	result := &mcp.CallToolResult{}
	return result, json.Unmarshal(t.response.Result, result)
}
