package mcphttp

import (
	"encoding/json"
	"time"

	"reprise"
)

// Session is a session of a client as this process has it. Its fields must not be changed. Its methods are
// safe for concurrent use; what they take and return is as with Exchange.
type Session struct {
	// ID is unguessable, for example "4E7XKQ2M...".
	ID        string
	Tenant    reprise.Tenant
	Principal string
	Created   time.Time
}

// Initialize is the params of the client's initialize request, as they came.
func (s *Session) Initialize() json.RawMessage { panic("not yet") }

// Version is the negotiated version of the protocol.
func (s *Session) Version() string { panic("not yet") }

// LogLevel is the level that the client has set last, on any replica; "" if it has set none.
func (s *Session) LogLevel() string { panic("not yet") }

// Notify sends a notification on the stream of the session as a whole, for whoever listens to
// it or comes back to it.
func (s *Session) Notify(message []byte) error { panic("not yet") }

// Ask is Exchange.Ask on the stream of the session as a whole.
func (s *Session) Ask(id ID, message []byte, answer func(response []byte)) error { panic("not yet") }
