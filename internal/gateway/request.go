package gateway

import (
	"encoding/json"
	"time"

	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// clientRequest is a request of a client that has no response yet.
type clientRequest struct {
	x      *mcphttp.Exchange
	in     *inbox // receives the messages of the upstream about it
	id     mcphttp.ID
	method string
	params json.RawMessage
	began  time.Time
	// wantsLogs is set before the request is sent if a client without a session has requested log messages.
	wantsLogs bool
	// at is link.Message.At of the request; may be nil. stays reports whether the call goes on at the upstream when
	// this process gives up; nil means no. Both are set before the request is sent.
	at    func(link.Place)
	stays func(cause error) bool

	// Only the goroutine of the delivery uses the following fields.
	call     *call // as it was sent last, nil before
	resent   bool  // it was sent twice, because it was not carried out at first
	answered bool
}

// succeed answers the request in place of the upstream.
func (r *clientRequest) succeed(result json.RawMessage) {
	r.in.push(arrival{request: r, m: mcphttp.Message{ID: r.id, Result: result}, result: Answered})
}

// fail answers the request in place of the upstream.
func (r *clientRequest) fail(result CallResult, why *wire.Failure) {
	r.in.push(arrival{request: r, m: mcphttp.Message{ID: r.id, Err: why.JSON()}, result: result})
}

// arrival is something that has come for the client of a delivery: the response to a request, a notification, or a
// question of the upstream.
type arrival struct {
	m       mcphttp.Message
	request *clientRequest // of a response
	result  CallResult     // of a response
	from    *connection    // of a question
	// resend asks to send the request again, because it was not executed. If it was sent twice already, m is the
	// response.
	resend bool
	// retry are the params for sending the request again, as requested by the upstream.
	retry json.RawMessage
}

// notification returns the arrival of a notification.
func notification(method string, params json.RawMessage) arrival {
	return arrival{m: mcphttp.Message{Raw: wire.Request("", method, params), Method: method}}
}

func (a *arrival) isResponse() bool { return a.m.Method == "" }
func (a *arrival) isQuestion() bool { return a.m.Method != "" && a.m.ID != "" }
func (a *arrival) bytes() int       { return len(a.m.Raw) + len(a.m.Result) }
