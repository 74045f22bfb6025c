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
// Its event ids are "<stream>~<cursor>". The cursor's tag binds them to tenant, session and stream, so an id of
// another session, or a forged id, is refused. They are valid on every replica whose Log has the same Keys.
type MCPGoEventStore struct{ *keeper }

var _ server.EventStore = (*MCPGoEventStore)(nil)

// NewForMCPGo returns an event store for mcp-go over log. The caller keeps ownership of log and closes it after the
// store. One store serves any number of servers and sessions. opts may be nil.
func NewForMCPGo(log *reprise.Log, opts *Options) *MCPGoEventStore {
	return &MCPGoEventStore{newKeeper(log, opts)}
}

// StoreEvent implements server.EventStore. It returns the id of the message when the message is kept, or when it is
// pending in memory because the store is unavailable; see "When the store fails" in the package documentation. It
// blocks as EventStore.Append does. The error says that the message was lost, or comes from a Log that cannot create
// the stream. message is copied.
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

// ReplayEventsAfter implements server.EventStore. An id that is not valid for the session, or after which an event is
// no longer kept, is refused with server.ErrUnknownEventID and the reason. The error is reprise.ErrUnavailable once the
// store has not answered for Options.MaxWait.
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

// PurgeSession implements server.EventStore: it removes the streams of the session, whichever replica created them.
func (s *MCPGoEventStore) PurgeSession(ctx context.Context, sessionID string) error {
	return s.closeSession(context.WithoutCancel(ctx), sessionID)
}
