package httpserver

import "net/http"

// singletons are the headers of requests that have one value.
var singletons = []string{
	"Authorization", "Content-Type", "Execution-Hold", "Execution-Receipts", "Idempotency-Key", "If-Range",
	"Last-Event-Id", "Login-Secret", "Origin", "Producer-Epoch", "Producer-Id", "Producer-Seq", "Range",
}

// RepeatedHeader returns a header that r has more than once although it has one value, or "" if there is none. Such a
// request is malformed (RFC 9110, section 5.3), even with equal values: a proxy that takes the first of them and a
// server that takes the last one act on different requests.
func RepeatedHeader(r *http.Request) string {
	for _, name := range singletons {
		if len(r.Header[name]) > 1 {
			return name
		}
	}
	return ""
}

// RepeatedDetail says why a request with a repeated header is refused.
const RepeatedDetail = "the header is given more than once"
