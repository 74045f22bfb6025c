package ssehttp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"reprise"
)

// Request is what a reader asks for.
type Request struct {
	// After is the text of the position, see reprise.ParsePosition.
	After string
	// GapEvent asks for a position outside the window to be told as an event in the stream.
	GapEvent bool
	// Types are the event types to send; empty for all.
	Types []string
	// CursorEvent asks for the cursor to be moved past other types by events of reprise.TypeCursor.
	CursorEvent bool
}

// LastEventID is the header with which an EventSource resumes.
const LastEventID = "Last-Event-ID"

// maxTypes bounds the types that one reader may ask for.
const maxTypes = 64

// ParseRequest reads the header Last-Event-ID and the query parameters after,
// gap, types and cursors; other parameters are not looked at. The header wins over "after", since
// a browser repeats the query when it reconnects. The error wraps reprise.ErrInvalid.
func ParseRequest(r *http.Request) (Request, error) {
	query := r.URL.Query()
	req := Request{After: query.Get("after")}
	if id := r.Header.Get(LastEventID); id != "" {
		req.After = id
	}
	switch gap := query.Get("gap"); gap {
	case "", "error":
	case "event":
		req.GapEvent = true
	default:
		return Request{}, fmt.Errorf("%w: gap=%q, it may be \"event\" or \"error\"", reprise.ErrInvalid, gap)
	}
	switch cursors := query.Get("cursors"); cursors {
	case "", "id":
	case "event":
		req.CursorEvent = true
	default:
		return Request{}, fmt.Errorf("%w: cursors=%q, it may be \"event\" or \"id\"", reprise.ErrInvalid, cursors)
	}
	if types := query.Get("types"); types != "" {
		req.Types = strings.Split(types, ",")
		if len(req.Types) > maxTypes || slices.Contains(req.Types, "") {
			return Request{}, fmt.Errorf("%w: types is 1 to %d event types with commas between",
				reprise.ErrInvalid, maxTypes)
		}
	}
	return req, nil
}

// maxRefusals bounds how often Open asks for the fork that a refusal names: the stream may fork again each time.
const maxRefusals = 10

// Open opens a reader at the position that req asks for. If that lies outside the window and req.GapEvent is set, the
// reader begins where the refusal says, and gap is the refusal. A malformed or foreign cursor is always refused.
func (req Request) Open(r *http.Request, s *reprise.Stream) (
	reader *reprise.Reader, gap *reprise.WindowError, err error,
) {
	at, err := reprise.ParsePosition(req.After)
	if err != nil {
		return nil, nil, err
	}
	for range maxRefusals {
		reader, err = s.Reader(r.Context(), at)
		refused, ok := errors.AsType[*reprise.WindowError](err)
		if !ok || !req.GapEvent {
			return reader, nil, err
		}
		resume := reprise.Earliest() // and not what the refusal names: the window may move past it at any rate
		if refused.Resume() != refused.Earliest {
			resume = reprise.After(refused.Resume())
		}
		if reader, err = s.Reader(r.Context(), resume); err == nil {
			return reader, refused, nil
		}
	}
	return nil, nil, err
}

// Resumption is what came of a request that presented a cursor.
type Resumption struct {
	// Err is why the reader cannot go on right after the cursor, nil if it does.
	Err error
	// Gap is set if Err was told as a gap, and the reader goes on after that.
	Gap bool
	// Events is the number of events that were there to be replayed: those between the position of the reader and the
	// tail.
	Events uint64
}

// Resumption returns what came of the cursor that req presents, by what Open returned. ok is false for a request
// without a cursor: one that begins at the earliest event or at the tail.
func (req Request) Resumption(reader *reprise.Reader, gap *reprise.WindowError, err error) (_ Resumption, ok bool) {
	switch req.After {
	case "", "0", "earliest", "tail":
		return Resumption{}, false
	}
	if err != nil {
		return Resumption{Err: err}, true
	}
	r := Resumption{Gap: gap != nil}
	if gap != nil {
		r.Err = gap
	}
	if info, at := reader.Info(), reader.Cursor().Seq; info.Tail > at {
		r.Events = info.Tail - at
	}
	return r, true
}
