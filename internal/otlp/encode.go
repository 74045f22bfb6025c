package otlp

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// The JSON form of OTLP is the JSON mapping of its Protocol Buffers, except that ids are hexadecimal and enums are
// numbers.

type wireValue struct {
	String *string `json:"stringValue,omitempty"`
	Int    *string `json:"intValue,omitempty"` // a 64-bit integer is a string
	Bool   *bool   `json:"boolValue,omitempty"`
}

type wireAttribute struct {
	Key   string    `json:"key"`
	Value wireValue `json:"value"`
}

type wireSpan struct {
	TraceID    string          `json:"traceId"`
	SpanID     string          `json:"spanId"`
	ParentID   string          `json:"parentSpanId,omitempty"`
	Name       string          `json:"name"`
	Kind       Kind            `json:"kind"`
	Start      string          `json:"startTimeUnixNano"`
	End        string          `json:"endTimeUnixNano"`
	Attributes []wireAttribute `json:"attributes,omitempty"`
	Status     wireStatus      `json:"status"`
}

type wireStatus struct {
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// statusError is the status code of a failed span.
const statusError = 2

func wireAttributes(list []Attribute) []wireAttribute {
	var wire []wireAttribute
	for _, a := range list {
		w := wireAttribute{Key: a.Name}
		switch v := a.Value.(type) {
		case string:
			if v == "" {
				continue
			}
			w.Value.String = &v
		case int64:
			text := strconv.FormatInt(v, 10)
			w.Value.Int = &text
		case bool:
			w.Value.Bool = &v
		default:
			continue
		}
		wire = append(wire, w)
	}
	return wire
}

// resourceAttributes returns the attributes of this process as JSON.
func resourceAttributes(resource []Attribute) string {
	attrs, err := json.Marshal(append([]wireAttribute{}, wireAttributes(resource)...))
	if err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	return `{"attributes":` + string(attrs) + `}`
}

// resourceHead returns the JSON that precedes the spans of each batch.
func resourceHead(resource []Attribute) []byte {
	return []byte(`{"resourceSpans":[{"resource":` + resourceAttributes(resource) +
		`,"scopeSpans":[{"scope":{"name":"reprise"},"spans":`)
}

func encode(head []byte, batch []*Span) []byte {
	wire := make([]wireSpan, len(batch))
	for i, s := range batch {
		wire[i] = wireSpan{
			TraceID: hex.EncodeToString(s.trace[:]), SpanID: hex.EncodeToString(s.id[:]), Name: s.name, Kind: s.kind,
			Start: nanos(s.began), End: nanos(s.ended), Attributes: wireAttributes(s.attrs),
		}
		if s.parent != [8]byte{} {
			wire[i].ParentID = hex.EncodeToString(s.parent[:])
		}
		if s.failed != "" {
			wire[i].Status = wireStatus{statusError, s.failed}
		}
	}
	spans, err := json.Marshal(wire)
	if err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	return append(append(append([]byte{}, head...), spans...), "}]}]}"...)
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
