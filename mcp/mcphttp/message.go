package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"reprise"
)

// ID is the id of a JSON-RPC request in its wire form: a number, or a string in quotes; "" for none. Two ids are the
// same if they are equal.
type ID string

// Message is a JSON-RPC message.
type Message struct {
	// Raw is the message as it came, without line breaks.
	Raw json.RawMessage
	// ID is "" for a notification.
	ID ID
	// Method is "" for a response.
	Method string
	// Params are the parameters of a request or a notification, or nil.
	Params json.RawMessage
	// Result and Err belong to a response: exactly one of them is not nil.
	Result, Err json.RawMessage
}

// isCall reports whether m requires a response.
func (m *Message) isCall() bool { return m.Method != "" && m.ID != "" }

// wireMessage is the wire form of a message.
type wireMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// membersOf returns the members of an object, or nil if raw is not an object. Names are compared with their case, as
// JSON requires and structs of encoding/json do not: the checked members must be the ones that other readers see.
func membersOf(raw []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	return members
}

// stringOf is a member that is a string, "" for others.
func stringOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// ParseMessage reads one message. The error is reprise.ErrInvalid; Message.ID is then set if it could
// be read.
func ParseMessage(raw []byte) (Message, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return Message{}, fmt.Errorf("%w: not a JSON-RPC message: %w", reprise.ErrInvalid, err)
	}
	m := Message{
		Raw: onOneLine(raw), Params: given(members["params"]), Result: members["result"], Err: given(members["error"]),
	}
	id, err := parseID(members["id"])
	if err != nil {
		return Message{}, err
	}
	m.ID = id
	method, isRequest := members["method"]
	m.Method = stringOf(method)
	if err := m.check(members, isRequest); err != nil {
		return m, fmt.Errorf("%w: not a JSON-RPC message: %w", reprise.ErrInvalid, err)
	}
	return m, nil
}

func (m *Message) check(members map[string]json.RawMessage, isRequest bool) error {
	switch id, hasID := members["id"]; {
	case stringOf(members["jsonrpc"]) != "2.0":
		return errors.New(`member "jsonrpc" is not "2.0"`)
	case isRequest && m.Method == "":
		return errors.New("the method is not a name")
	case isRequest && (m.Result != nil || m.Err != nil):
		return errors.New("it is both a request and a response")
	case isRequest && hasID && given(id) == nil:
		return errors.New("the id is null")
	case m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		return errors.New("params are no object")
	case !isRequest && (m.Result == nil) == (m.Err == nil):
		return errors.New("neither a method, nor a result or an error")
	case !isRequest && m.ID == "" && m.Err == nil:
		return errors.New("a result without an id")
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

// maxIDBytes limits the size of a request id, because it is chosen by the client and kept with the stream.
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

// stringID returns the canonical form of an id that is a string.
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

// onOneLine removes the line breaks from valid JSON, whose strings contain none.
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

// parseBody parses the body of a POST. batch is true for an array.
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
		return nil, true, fmt.Errorf("%w: a batch of %d messages, 1 to %d are taken",
			reprise.ErrInvalid, len(raws), maxBatch)
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
	return compact(wireMessage{
		JSONRPC: "2.0", ID: json.RawMessage(id), Method: m.Method, Params: m.Params, Result: m.Result, Error: m.Err,
	})
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
