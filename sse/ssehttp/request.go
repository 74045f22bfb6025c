package ssehttp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"reprise"
	"reprise/internal/problem"
)

// Request describes what a reader asks for.
type Request struct {
	// After is the text of the position, see reprise.ParsePosition.
	After string
	// GapEvent asks for an event in the stream in place of an error, if the position is outside the window.
	GapEvent bool
	// Types are the event types to send; empty for all.
	Types []string
	// CursorEvent asks for events of reprise.TypeCursor to move the cursor past other types.
	CursorEvent bool
}

// LastEventID is the header with which an EventSource resumes.
const LastEventID = "Last-Event-ID"

// maxTypes bounds the types that one reader may ask for.
const maxTypes = 64

// ParseRequest reads the header Last-Event-ID and the query parameters after,
// gap, types and cursors; it ignores other parameters. The header has precedence over "after", because
// a browser repeats the query when it reconnects. A repeated header is refused. The error wraps reprise.ErrInvalid.
func ParseRequest(r *http.Request) (Request, error) {
	query := r.URL.Query()
	req := Request{After: query.Get("after")}
	switch ids := r.Header.Values(LastEventID); {
	case len(ids) > 1:
		return Request{}, invalid(LastEventID, "the header is given more than once")
	case len(ids) == 1 && ids[0] != "":
		req.After = ids[0]
	}
	switch gap := query.Get("gap"); gap {
	case "", "error":
	case "event":
		req.GapEvent = true
	default:
		return Request{}, invalid("gap", `%q is not "event" or "error"`, gap)
	}
	switch cursors := query.Get("cursors"); cursors {
	case "", "id":
	case "event":
		req.CursorEvent = true
	default:
		return Request{}, invalid("cursors", `%q is not "event" or "id"`, cursors)
	}
	if types := query.Get("types"); types != "" {
		req.Types = strings.Split(types, ",")
		if len(req.Types) > maxTypes || slices.Contains(req.Types, "") {
			return Request{}, invalid("types", "%q is not a list of 1 to %d event types with commas between them",
				types, maxTypes)
		}
	}
	return req, nil
}

// invalid returns the problem of a parameter or header, which wraps reprise.ErrInvalid.
func invalid(parameter, format string, args ...any) error {
	return problem.Invalid(http.StatusBadRequest, parameter, fmt.Sprintf(format, args...))
}

// maxRefusals bounds how often Open asks for the fork that a refusal names: the stream may fork again each time.
const maxRefusals = 10

// Open opens a reader at the position of req. If the position is outside the window and req.GapEvent is set, the
// reader begins where the refusal says, and gap is the refusal; without a cursor, the position is then the one before
// the first event. A malformed or foreign cursor is always refused.
func (req Request) Open(r *http.Request, s *reprise.Stream) (
	reader *reprise.Reader, gap *reprise.WindowError, err error,
) {
	at, err := reprise.ParsePosition(req.After)
	if err != nil {
		return nil, nil, err
	}
	if req.GapEvent && (req.After == "" || req.After == "0") {
		at = reprise.After(s.Cursor(0)) // refused if the first event is gone
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

// Resumption is the result of a request with a cursor.
type Resumption struct {
	// Err is the reason why the reader cannot continue right after the cursor, or nil.
	Err error
	// Gap is set if Err was sent as a gap event, and the reader continues after it.
	Gap bool
	// Events is the number of events to replay: those between the position of the reader and the
	// tail.
	Events uint64
}

// Resumption returns the result for the cursor of req, from the results of Open. ok is false for a request
// without a cursor, that is, one that begins at the earliest event or at the tail.
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
