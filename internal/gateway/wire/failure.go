package wire

import (
	"cmp"
	"encoding/json"

	"reprise/internal/problem"
)

// The codes of JSON-RPC 2.0, section 5.1.
const (
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// The reasons that stand as "code" in the data of an error; docs/gateway.md lists them.
const (
	ReasonLost        = "upstream_lost"        // whether the request was carried out is not known
	ReasonUnavailable = "upstream_unavailable" // the request was not carried out
	ReasonTimeout     = "upstream_timeout"
	ReasonLimit       = "limit"
	ReasonNoClient    = "no_client"
	ReasonNoAnswer    = "no_answer"
	ReasonCancelled   = "cancelled"
	ReasonCredential  = "credential_missing" // the principal has none for the upstream, which was not called
)

// Failure is the error of a response.
type Failure struct {
	Code    int
	Reason  string // one of the Reason constants, or ""
	Message string
	// Quota has the members of the data that say which quota is used up.
	Quota problem.QuotaData
}

// Internal returns the Failure with CodeInternal.
func Internal(reason, message string) *Failure {
	return &Failure{Code: CodeInternal, Reason: reason, Message: message}
}

// Refusal returns the Failure of requests that are refused, by a quota for example.
func Refusal(err error) *Failure {
	p := problem.From(err)
	return &Failure{
		Code: CodeInternal, Reason: string(p.Code), Message: cmp.Or(p.Detail, p.Title), Quota: p.QuotaData(),
	}
}

func (f *Failure) Error() string { return f.Message }

// failureData is the data of an error.
type failureData struct {
	Code string `json:"code"`
	problem.QuotaData
}

// JSON returns the member "error" of a response.
func (f *Failure) JSON() json.RawMessage {
	e := struct {
		Code    int          `json:"code"`
		Message string       `json:"message"`
		Data    *failureData `json:"data,omitempty"`
	}{Code: f.Code, Message: f.Message}
	if f.Reason != "" {
		e.Data = &failureData{f.Reason, f.Quota}
	}
	return Compact(e)
}
