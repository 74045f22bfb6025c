package mcpstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/server"

	"reprise"
)

// MCPGoEventStore is a server.EventStore of mcp-go. It is safe for concurrent use and must be closed.
//
// Its event ids are "<stream>~<cursor>". The cursor's tag binds them to tenant, session and stream, so that an id of
// another session, or one that is made up, is refused. They are good on every replica whose Log has the same Keys.
type MCPGoEventStore struct{ *keeper }

var _ server.EventStore = (*MCPGoEventStore)(nil)

// NewForMCPGo makes an event store for mcp-go over log, which stays the caller's and is closed after it. One serves any
// number of servers and sessions. opts may be nil.
func NewForMCPGo(log *reprise.Log, opts *Options) *MCPGoEventStore {
	return &MCPGoEventStore{newKeeper(log, opts)}
}

// StoreEvent implements server.EventStore. It returns when the message is kept, or when it waits in memory for a
// store that is unavailable, with the id that it is going to have; see "When the store fails" in the package's
// documentation. It blocks as EventStore.Append does. The error tells that the message was lost, or is that of a Log
// that cannot make the stream. message is copied.
func (s *MCPGoEventStore) StoreEvent(
	ctx context.Context, sessionID, streamID string, message json.RawMessage,
) (string, error) {
	w, seq, err := s.append(ctx, ref{sessionID, streamID}, message, true)
	if err != nil {
		return "", err
	}
	return eventID(streamID, w.stream, seq), nil
}

func eventID(streamID string, s *reprise.Stream, seq uint64) string {
	return streamID + "~" + s.Cursor(seq).String()
}

// ReplayEventsAfter implements server.EventStore. Every id that is not good for the session, or after which something
// is not kept any more, is refused with server.ErrUnknownEventID and the reason. The error is reprise.ErrUnavailable
// once the store has not answered for Options.MaxWait.
func (s *MCPGoEventStore) ReplayEventsAfter(
	ctx context.Context, sessionID, lastEventID string, send func(eventID string, message json.RawMessage) error,
) (string, error) {
	tilde := strings.LastIndexByte(lastEventID, '~')
	if tilde < 0 {
		return "", fmt.Errorf("%w: %w", server.ErrUnknownEventID, reprise.ErrCursorMalformed)
	}
	streamID := lastEventID[:tilde]
	at := func(*reprise.Stream) (reprise.Cursor, error) { return reprise.ParseCursor(lastEventID[tilde+1:]) }
	err := s.events(ctx, ref{sessionID, streamID}, at, func(seq uint64, data []byte, stream *reprise.Stream) error {
		return send(eventID(streamID, stream, seq), data)
	})
	if err != nil {
		return "", unknown(err)
	}
	return streamID, nil
}

// unknown is err, which wraps server.ErrUnknownEventID as well if it refuses the id.
func unknown(err error) error {
	_, window := errors.AsType[*reprise.WindowError](err)
	for _, refusal := range []error{
		reprise.ErrCursorMalformed, reprise.ErrCursorForeign, reprise.ErrNotFound, reprise.ErrExpired,
		reprise.ErrInvalid,
	} {
		window = window || errors.Is(err, refusal)
	}
	if !window {
		return err
	}
	return fmt.Errorf("%w: %w", server.ErrUnknownEventID, err)
}

// PurgeSession implements server.EventStore: it removes the streams of the session, on whatever replica they were made.
func (s *MCPGoEventStore) PurgeSession(ctx context.Context, sessionID string) error {
	return s.closeSession(context.WithoutCancel(ctx), sessionID)
}
