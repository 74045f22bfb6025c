package mcptask

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
)

// Extension is the name of the extension, under which servers and clients declare it.
const Extension = "io.modelcontextprotocol/tasks"

// modern is the first version of the protocol that has the extension.
const modern = "2026-07-28"

const (
	methodCall     = "tools/call"
	methodDiscover = "server/discover"
	methodListen   = "subscriptions/listen"
	methodGet      = "tasks/get"
	methodUpdate   = "tasks/update"
	methodCancel   = "tasks/cancel"

	notificationTask = "notifications/tasks"
	notificationAck  = "notifications/subscriptions/acknowledged"
)

// Status is the state of a task.
type Status string

// The states of a task. The last three are final.
const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// Ended reports whether s is final.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// wireTask is a task as clients see it: the DetailedTask of the extension.
type wireTask struct {
	TaskID         string                     `json:"taskId"`
	Status         Status                     `json:"status"`
	StatusMessage  string                     `json:"statusMessage,omitempty"`
	CreatedAt      wireTime                   `json:"createdAt"`
	LastUpdatedAt  wireTime                   `json:"lastUpdatedAt"`
	TTLMs          *int64                     `json:"ttlMs"`
	PollIntervalMs int64                      `json:"pollIntervalMs,omitempty"`
	InputRequests  map[string]json.RawMessage `json:"inputRequests,omitempty"`
	Result         json.RawMessage            `json:"result,omitempty"`
	Error          json.RawMessage            `json:"error,omitempty"`
}

// wireTime is written in UTC with milliseconds.
type wireTime struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t wireTime) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z"`), nil
}

// taskResult answers tools/call, where ResultType is "task", and tasks/get.
type taskResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	wireTask
}

// ack answers tasks/update and tasks/cancel.
type ack struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

// taskParams are the parameters of tasks/get, tasks/update and tasks/cancel.
type taskParams struct {
	mcp.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
}

// wireError is the error of a JSON-RPC response.
type wireError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// errorOf is err as the error of a failed task.
func errorOf(err error) json.RawMessage {
	e := wireError{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	if known, ok := errors.AsType[*jsonrpc.Error](err); ok {
		e = wireError{Code: known.Code, Message: known.Message, Data: known.Data}
	}
	text, err := json.Marshal(e)
	if err != nil { // the data of known is no JSON
		text, _ = json.Marshal(wireError{Code: e.Code, Message: e.Message})
	}
	return text
}

// invalid refuses the parameters of a request.
func invalid(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// missing refuses a client that has not declared the extension.
func missing() error {
	data, err := json.Marshal(map[string]any{
		"requiredCapabilities": map[string]any{"extensions": map[string]any{Extension: map[string]any{}}},
	})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: "the client has not declared " + Extension,
		Data:    data,
	}
}

// refused is err as the answer to a request for a task.
func refused(err error) error {
	switch {
	case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrInvalid):
		return invalid("task not found")
	case errors.Is(err, reprise.ErrExpired):
		return invalid("task has expired")
	}
	return err
}
