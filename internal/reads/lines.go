package reads

import (
	"encoding/json"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/web"
	"reprise/sse/ssehttp"
)

// lines encodes events as application/x-ndjson, one event per line. A blank line is a heartbeat. A line with only a
// cursor, or of type cursor for clients that request it, means that the events up to the cursor were filtered out. The
// format cannot express a reconnection time.
type lines struct{}

// ContentType implements ssehttp.Form.
func (lines) ContentType() string { return web.NDJSON }

// AppendEvent implements reprise.Encoder.
func (lines) AppendEvent(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	return append(appendEvent(dst, e, cursorSuffix), '\n')
}

// AppendGap implements ssehttp.Form.
func (lines) AppendGap(dst []byte, gap ssehttp.Gap) []byte { return append(appendGap(dst, gap), '\n') }

// AppendMove implements ssehttp.Form.
func (lines) AppendMove(dst []byte, c reprise.Cursor, asEvent bool) []byte {
	dst = append(c.Append(append(dst, `{"cursor":"`...)), '"')
	if asEvent {
		dst = append(dst, `,"type":"`+reprise.TypeCursor+`"`...)
	}
	return append(dst, "}\n"...)
}

// AppendHeartbeat implements ssehttp.Form.
func (lines) AppendHeartbeat(dst []byte) []byte { return append(dst, '\n') }

// AppendRetry implements ssehttp.Form.
func (lines) AppendRetry(dst []byte, _ time.Duration) []byte { return dst }

// appendEvent appends the event as it stands in a line or a page:
//
//	{"cursor":"7.<epoch>.<tag>","type":"stdout","seq":7,"time":"...","text":"..."}
func appendEvent(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	dst = append(dst, `{"cursor":"`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, cursorSuffix...)
	dst = append(dst, `","type":"`...)
	dst = append(dst, e.Type...)
	dst = append(dst, `",`...)
	return append(e.AppendMembers(dst), '}')
}

// appendGap appends the notice of a gap in the form of a line or a page. Its cursor is the position at which the events
// continue.
func appendGap(dst []byte, gap ssehttp.Gap) []byte {
	text, err := json.Marshal(struct {
		Cursor string `json:"cursor"`
		Type   string `json:"type"`
		ssehttp.Gap
	}{gap.Cursor, reprise.TypeGap, gap})
	if err != nil {
		panic(err) // strings and a number
	}
	return append(dst, text...)
}
