package ssehttp

import (
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
	// GapEvent asks for a refused position to be told as an event in the stream.
	GapEvent bool
	// Types are the event types to send; empty for all.
	Types []string
}

// LastEventID is the header with which an EventSource resumes.
const LastEventID = "Last-Event-ID"

// maxTypes bounds the types that one reader may ask for.
const maxTypes = 64

// ParseRequest reads the header Last-Event-ID and the query parameters after,
// gap and types; other parameters are not looked at. The header wins over "after", since
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
	if types := query.Get("types"); types != "" {
		req.Types = strings.Split(types, ",")
		if len(req.Types) > maxTypes || slices.Contains(req.Types, "") {
			return Request{}, fmt.Errorf("%w: types is 1 to %d event types with commas between", reprise.ErrInvalid, maxTypes)
		}
	}
	return req, nil
}

// Open opens a reader at the position that req asks for. If that is refused and
// req.GapEvent is set, the reader begins at the earliest event and gap says what was refused.
func (req Request) Open(r *http.Request, s *reprise.Stream) (reader *reprise.Reader, gap error, err error) {
	at, err := reprise.ParsePosition(req.After)
	if err == nil {
		reader, err = s.Reader(r.Context(), at)
	}
	if err == nil || !req.GapEvent || !isRefusal(err) {
		return reader, nil, err
	}
	gap = err
	reader, err = s.Reader(r.Context(), reprise.Earliest())
	return reader, gap, err
}
