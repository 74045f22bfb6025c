package mcpstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
)

// EventStore is an mcp.EventStore of the Go SDK. It is safe for concurrent use and must be closed.
type EventStore struct{ *keeper }

var _ mcp.EventStore = (*EventStore)(nil)

// New returns an event store for the Go SDK over log. The caller keeps ownership of log and closes it after the store.
// One store serves any number of servers and sessions. opts may be nil.
func New(log *reprise.Log, opts *Options) *EventStore { return &EventStore{newKeeper(log, opts)} }

// Open implements mcp.EventStore. It returns when the stream is kept; the error comes from the Log.
func (s *EventStore) Open(ctx context.Context, sessionID, streamID string) error {
	_, err := s.open(ctx, ref{sessionID, streamID})
	return err
}

// Append implements mcp.EventStore. It returns when the message is kept, or when it is pending in memory because the
// store is unavailable; see "When the store fails" in the package documentation. It blocks at most as long as the Store
// takes to answer, plus Options.MaxWait if too many messages are pending. Cancelling ctx has no effect. The error says
// that the message was lost, or is reprise.ErrNotFound if the stream was not opened or was removed. data is copied.
func (s *EventStore) Append(ctx context.Context, sessionID, streamID string, data []byte) error {
	_, _, err := s.append(ctx, ref{sessionID, streamID}, data, false)
	return err
}

// After implements mcp.EventStore. The error is mcp.ErrEventsPurged for an index after which an event is no longer
// kept, a *reprise.WindowError for an index beyond the last message, reprise.ErrNotFound for a stream that does not
// belong to the session, or reprise.ErrUnavailable once the store has not answered for Options.MaxWait.
func (s *EventStore) After(ctx context.Context, sessionID, streamID string, index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		at := func(stream *reprise.Stream) (reprise.Cursor, error) {
			if index < -1 {
				return reprise.Cursor{}, fmt.Errorf("%w: index %d", reprise.ErrInvalid, index)
			}
			return stream.Cursor(uint64(index + 1)), nil
		}
		err := s.events(ctx, ref{sessionID, streamID}, at, func(_ uint64, data []byte, _ *reprise.Stream) error {
			if !yield(data, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, fmt.Errorf("events after %d: %w", index, purged(err)))
		}
	}
}

// errStop ends a replay when the caller stops the iteration.
var errStop = errors.New("stop")

// purged is err, which wraps mcp.ErrEventsPurged as well if events are not kept any more.
func purged(err error) error {
	if window, ok := errors.AsType[*reprise.WindowError](err); ok && window.Reason == reprise.CursorExpired {
		return fmt.Errorf("%w: %w", mcp.ErrEventsPurged, err)
	}
	return err
}

// SessionClosed implements mcp.EventStore: it removes the streams of the session. Streams that it cannot remove,
// because the store is unavailable, are left to the sweep.
func (s *EventStore) SessionClosed(ctx context.Context, sessionID string) error {
	return s.closeSession(context.WithoutCancel(ctx), sessionID)
}
