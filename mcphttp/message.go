package mcphttp

import "encoding/json"

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

// ParseMessage reads one message. The error is reprise.ErrInvalid; Message.ID is then set if it could
// be read.
func ParseMessage(raw []byte) (Message, error) { panic("not yet") }
