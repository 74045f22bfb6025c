package durable

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/web"
)

// An offset has the form that the reference server gives it, two numbers of 16 digits each, because the public tests
// rely on it. The first is the position; the second is always 0.
const (
	offsetDigits = 16
	offsetTail   = "_0000000000000000"
)

// offsetOf returns the offset after so many events.
func offsetOf(position uint64) string {
	return fmt.Sprintf("%0*d", offsetDigits, position) + offsetTail
}

// parseOffset is the inverse of offsetOf. A position that no stream has is one, too.
func parseOffset(text string) (position uint64, ok bool) {
	first, second, found := strings.Cut(text, "_")
	if !found || len(first) != offsetDigits || len(second) != offsetDigits {
		return 0, false
	}
	position, err := strconv.ParseUint(first, 10, 64)
	rest, err2 := strconv.ParseUint(second, 10, 64)
	if rest > 0 {
		position++ // within an event: the offset is not ours, and lies beyond
	}
	return position, err == nil && err2 == nil
}

// The offsets with a special meaning, and the names of live modes.
const (
	fromStart = "-1"
	fromNow   = "now"
	longPoll  = "long-poll"
	liveSSE   = "sse"
)

// reading is what a GET asks for.
type reading struct {
	from  uint64
	start bool   // from the first event that is kept
	now   bool   // from the tail
	live  string // "", longPoll or liveSSE
	// cursor is the parameter of the name, 0 for none.
	cursor int64
}

// lastEventID is the header with which an EventSource resumes; it overrides the offset.
const lastEventID = "Last-Event-ID"

func parseReading(r *http.Request) (reading, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return reading{}, web.BadRequest("", "the parameters cannot be read")
	}
	rd := reading{live: query.Get("live")}
	offsets := query["offset"]
	if id := r.Header.Get(lastEventID); id != "" && rd.live == liveSSE {
		offsets = []string{id}
	}
	switch {
	case rd.live != "" && rd.live != longPoll && rd.live != liveSSE:
		return rd, web.BadRequest("live", longPoll+" or "+liveSSE+" is taken")
	case len(offsets) > 1:
		return rd, web.BadRequest("offset", "one offset is taken")
	case len(offsets) == 0 && rd.live != "":
		return rd, web.BadRequest("offset", "a live read needs an offset")
	case len(offsets) == 0 || offsets[0] == fromStart:
		rd.start = true
	case offsets[0] == fromNow:
		rd.now = true
	default:
		var ok bool
		if rd.from, ok = parseOffset(offsets[0]); !ok {
			return rd, web.BadRequest("offset", "the text is not an offset of this server")
		}
	}
	rd.cursor, _ = strconv.ParseInt(query.Get("cursor"), 10, 64) // one that is no number is none
	return rd, nil
}

// A cursor of the protocol is a number that grows with time, which keeps caches from answering a request with the
// response to an earlier one: the number of intervals since an epoch that the protocol sets.
const (
	cursorInterval = 20 * time.Second
	cursorJitter   = 3600 * time.Second / cursorInterval
)

var cursorEpoch = time.Date(2024, time.October, 9, 0, 0, 0, 0, time.UTC)

// nextCursor returns the cursor of a response, which is above the one of the request, asked.
func nextCursor(asked int64, now time.Time) string {
	cursor := int64(now.Sub(cursorEpoch) / cursorInterval)
	if asked >= cursor && asked < 1<<53 {
		cursor = asked + 1 + rand.Int64N(int64(cursorJitter))
	}
	return strconv.FormatInt(cursor, 10)
}

// nameOf returns the name of the stream at a path. A byte that names do not have is written as an underscore and two
// hexadecimal digits in upper case, and so is an underscore that such digits follow, so that no two paths share a name.
func nameOf(path string) string {
	var name strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case isPlain(c) && (c != '_' || !isEscape(path[i:])):
			name.WriteByte(c)
		default:
			fmt.Fprintf(&name, "_%02X", c)
		}
	}
	return name.String()
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-/", c) >= 0
}

func isEscape(s string) bool { return len(s) > 2 && isHex(s[1]) && isHex(s[2]) }

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'F' }

// keyOf returns the key of the stream at a path, for a tenant.
func keyOf(x *web.Exchange, path string) (reprise.StreamKey, error) {
	key := reprise.StreamKey{Tenant: x.Who.Tenant, Name: nameOf(path)}
	if err := key.Validate(); err != nil {
		return key, web.BadRequest("path", err.Error())
	}
	return key, nil
}
