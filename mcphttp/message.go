package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"reprise"
)

// ID is the id of a JSON-RPC request as it is written: a number or a string in quotes, "" for
// none. Two are the same id if they are equal.
type ID string

// Message is a JSON-RPC message.
type Message struct {
	// Raw is the message as it came, without line breaks.
	Raw json.RawMessage
	// ID is "" for a notification.
	ID ID
	// Method is "" for a response.
	Method string
	// Params are those of a request or a notification, nil if there are none.
	Params json.RawMessage
	// Result and Err are those of a response: one of them is not nil.
	Result, Err json.RawMessage
}

// isCall reports whether m asks for a response.
func (m *Message) isCall() bool { return m.Method != "" && m.ID != "" }

// wireMessage is what a message may hold. Members that have no meaning are ignored.
type wireMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  *string         `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// ParseMessage reads one message. The error is reprise.ErrInvalid; Message.ID is then set if it could
// be read.
func ParseMessage(raw []byte) (Message, error) {
	var wire wireMessage
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Message{}, fmt.Errorf("%w: no JSON-RPC message: %w", reprise.ErrInvalid, err)
	}
	m := Message{Raw: onOneLine(raw), Params: given(wire.Params), Result: wire.Result, Err: given(wire.Error)}
	id, err := parseID(wire.ID)
	if err != nil {
		return Message{}, err
	}
	m.ID = id
	if wire.Method != nil {
		m.Method = *wire.Method
	}
	return m, m.check(&wire)
}

func (m *Message) check(wire *wireMessage) error {
	var err error
	switch {
	case wire.JSONRPC != "2.0":
		err = errors.New(`member "jsonrpc" is not "2.0"`)
	case wire.Method != nil && *wire.Method == "":
		err = errors.New("the method is empty")
	case wire.Method != nil && (wire.Result != nil || m.Err != nil):
		err = errors.New("it is both a request and a response")
	case wire.Method != nil && bytes.Equal(bytes.TrimSpace(wire.ID), []byte("null")):
		err = errors.New("the id is null")
	case m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		err = errors.New("params are no object")
	case wire.Method == nil && (m.Result == nil) == (m.Err == nil):
		err = errors.New("neither a method, nor a result or an error")
	case wire.Method == nil && m.ID == "" && m.Err == nil:
		err = errors.New("a result without an id")
	}
	if err != nil {
		return fmt.Errorf("%w: no JSON-RPC message: %w", reprise.ErrInvalid, err)
	}
	return nil
}

// given is nil for a member that is null.
func given(raw json.RawMessage) json.RawMessage {
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}

// maxIDBytes bounds the id of a request: what the client chooses is kept with the stream.
const maxIDBytes = 1 << 10

// parseID accepts integers and strings, as the protocol has it, and null as none.
func parseID(raw json.RawMessage) (ID, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return "", nil
	case len(raw) > maxIDBytes:
		return "", fmt.Errorf("%w: an id of %d bytes, at most %d are taken", reprise.ErrInvalid, len(raw), maxIDBytes)
	case raw[0] == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", fmt.Errorf("%w: id: %w", reprise.ErrInvalid, err)
		}
		return stringID(s), nil
	}
	for i, c := range raw {
		if (c < '0' || c > '9') && (c != '-' || i > 0) {
			return "", fmt.Errorf("%w: an id is a string or an integer", reprise.ErrInvalid)
		}
	}
	return ID(raw), nil
}

// stringID is the one way in which an id that is a string is written.
func stringID(s string) ID { return ID(compact(s)) }

// compact is v as JSON, without escapes that only HTML needs and without a line break.
func compact(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // of our own types, which hold valid JSON
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// onOneLine is valid JSON without line breaks. Inside of strings there are none.
func onOneLine(raw []byte) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return raw // which is no JSON and refused by others
	}
	return buf.Bytes()
}

// parseBody reads what a POST has brought. batch is true for an array.
func parseBody(body []byte) (messages []Message, batch bool, err error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '[' {
		m, err := ParseMessage(body)
		return []Message{m}, false, err
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(body, &raws); err != nil {
		return nil, true, fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	if len(raws) == 0 || len(raws) > maxBatch {
		return nil, true, fmt.Errorf("%w: a batch of %d messages, 1 to %d are taken", reprise.ErrInvalid, len(raws), maxBatch)
	}
	for _, raw := range raws {
		m, err := ParseMessage(raw)
		if err != nil {
			return []Message{m}, true, err
		}
		messages = append(messages, m)
	}
	return messages, true, nil
}

// maxBatch bounds the messages of a batch.
const maxBatch = 1000

// withID is m under another id.
func (m *Message) withID(id ID) []byte {
	wire := wireMessage{JSONRPC: "2.0", ID: json.RawMessage(id), Params: m.Params, Result: m.Result, Error: m.Err}
	if m.Method != "" {
		wire.Method = &m.Method
	}
	return compact(wire)
}

// rpcError is the error of a response.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// The codes of JSON-RPC 2.0, section 5.1, and of MCP.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeSessionNotFound    = -32001 // as the TypeScript and Python SDKs have it
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// errorResponse is the response to the request id that says e. Without an id it is null.
func errorResponse(id ID, e rpcError) []byte {
	if id == "" {
		id = "null"
	}
	return compact(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", json.RawMessage(id), e})
}
