package mcphttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/problem"
)

// refusal is a request that is answered with a JSON-RPC error and a status that says the same.
type refusal struct {
	status     int
	id         ID
	rpc        rpcError
	retryAfter time.Duration
	challenge  string // the header WWW-Authenticate, "" for none or the shortest
}

// refusalData is the data of the error of a refusal.
type refusalData struct {
	Code string `json:"code"`
	// Earliest and Tail are event ids that are valid in place of a refused one.
	Earliest string `json:"earliest,omitempty"`
	Tail     string `json:"tail,omitempty"`
	// Fork is the event id from which to continue if the newest messages were lost.
	Fork string `json:"fork,omitempty"`
	problem.QuotaData
}

func invalidRequest(status int, message string) *refusal {
	return &refusal{status: status, rpc: rpcError{
		Code:    codeInvalidRequest,
		Message: message,
		Data:    refusalData{Code: string(problem.CodeInvalid)},
	}}
}

// refusalOf is how err is answered.
func refusalOf(err error) *refusal {
	if errors.Is(err, errNoSession) {
		return &refusal{status: http.StatusNotFound, rpc: rpcError{
			Code: codeSessionNotFound, Message: "Session not found", Data: refusalData{Code: "session_not_found"},
		}}
	}
	p := problem.From(err)
	rpc := rpcError{
		Code: codeInternal, Message: p.Title, Data: refusalData{Code: string(p.Code), QuotaData: p.QuotaData()},
	}
	if p.Detail != "" {
		rpc.Message = p.Detail
	}
	if p.Status < 500 {
		rpc.Code = codeInvalidRequest
	}
	return &refusal{status: p.Status, rpc: rpc, retryAfter: p.RetryAfter, challenge: p.Challenge}
}

// refusalOfID is how an event id is answered that cannot be resumed from.
func refusalOfID(f form, err error) (*refusal, Resumption) {
	if errors.Is(err, reprise.ErrNotFound) { // a 404 would say that there is no such session
		err = reprise.ErrCursorForeign
	}
	r := refusalOf(err)
	if window, ok := errors.AsType[*reprise.WindowError](err); ok {
		data := refusalData{
			Code:     window.Reason.String(),
			Earliest: f.eventID(window.Earliest),
			Tail:     f.eventID(window.Tail),
		}
		if window.Reason == reprise.EpochChanged {
			data.Fork = f.eventID(window.Fork)
		}
		r.rpc.Data = data
		return r, Expired
	}
	switch {
	case errors.Is(err, reprise.ErrExpired):
		return r, Expired
	case errors.Is(err, reprise.ErrCursorForeign), errors.Is(err, reprise.ErrCursorMalformed):
		return r, Foreign
	}
	return r, ""
}

func (r *refusal) write(w http.ResponseWriter) {
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	if r.challenge == "" && r.status == http.StatusUnauthorized {
		r.challenge = "Bearer" // RFC 9110, section 15.5.2, wants one
	}
	if r.challenge != "" {
		head.Set("WWW-Authenticate", r.challenge)
	}
	if r.retryAfter > 0 {
		head.Set("Retry-After", strconv.Itoa(int((r.retryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(errorResponse(r.id, r.rpc)) // the client has gone if it fails
}
