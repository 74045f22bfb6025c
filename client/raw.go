package client

import (
	"bytes"
	"encoding/json"
)

// The answers below keep the object as the server sent it, with members that this client does not know.

// UnmarshalJSON implements json.Unmarshaler.
func (x *Execution) UnmarshalJSON(text []byte) error {
	type plain Execution
	return decodeRaw(text, (*plain)(x), &x.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Stream) UnmarshalJSON(text []byte) error {
	type plain Stream
	return decodeRaw(text, (*plain)(s), &s.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Session) UnmarshalJSON(text []byte) error {
	type plain Session
	return decodeRaw(text, (*plain)(s), &s.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *MCPSession) UnmarshalJSON(text []byte) error {
	type plain MCPSession
	return decodeRaw(text, (*plain)(s), &s.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *Interpreter) UnmarshalJSON(text []byte) error {
	type plain Interpreter
	return decodeRaw(text, (*plain)(i), &i.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *MCPCall) UnmarshalJSON(text []byte) error {
	type plain MCPCall
	return decodeRaw(text, (*plain)(c), &c.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Task) UnmarshalJSON(text []byte) error {
	type plain Task
	return decodeRaw(text, (*plain)(t), &t.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Replica) UnmarshalJSON(text []byte) error {
	type plain Replica
	return decodeRaw(text, (*plain)(r), &r.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Schedule) UnmarshalJSON(text []byte) error {
	type plain Schedule
	return decodeRaw(text, (*plain)(s), &s.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *Webhook) UnmarshalJSON(text []byte) error {
	type plain Webhook
	return decodeRaw(text, (*plain)(w), &w.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *Key) UnmarshalJSON(text []byte) error {
	type plain Key
	return decodeRaw(text, (*plain)(k), &k.Raw)
}

func decodeRaw(text []byte, v any, raw *json.RawMessage) error {
	*raw = bytes.Clone(text)
	return json.Unmarshal(text, v)
}
