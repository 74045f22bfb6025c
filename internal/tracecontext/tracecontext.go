// Package tracecontext reads the headers traceparent and tracestate of the W3C Trace Context, level 1, which associate
// a request with a trace.
package tracecontext

import (
	"net/http"
	"strings"
)

// The headers, and the variables of the environment in which a process finds their values.
const (
	ParentHeader   = "Traceparent"
	StateHeader    = "Tracestate"
	ParentVariable = "TRACEPARENT"
	StateVariable  = "TRACESTATE"
)

// maxState bounds a tracestate: the standard wants at least 512 characters to be passed on.
const maxState = 512

// A Context is the place of a request in a trace. The zero Context is none.
type Context struct {
	// Parent is the value of traceparent, for example
	// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".
	Parent string
	// State is the value of tracestate, "" for none.
	State string
}

// Of returns the Context of a request, the zero Context if it has none or one that the standard calls invalid.
func Of(h http.Header) Context {
	if parents := h.Values(ParentHeader); len(parents) != 1 {
		return Context{}
	}
	return New(h.Get(ParentHeader), strings.Join(h.Values(StateHeader), ","))
}

// New returns a Context of the values of the headers, the zero Context for an invalid parent. An invalid state is left
// out.
func New(parent, state string) Context {
	if !valid(parent) {
		return Context{}
	}
	if len(state) > maxState || strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		state = ""
	}
	return Context{Parent: parent, State: state}
}

// TraceID is the id of the trace: 32 hexadecimal digits, "" for the zero Context.
func (c Context) TraceID() string {
	if c.Parent == "" {
		return ""
	}
	return c.Parent[3:35]
}

// valid reports whether s is a traceparent: version, trace id, parent id and flags, in lower case. A version that is
// not known may have more behind another dash.
func valid(s string) bool {
	if len(s) < 55 || len(s) > maxState || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, rest := s[:2], s[55:]
	for _, part := range []string{version, s[3:35], s[36:52], s[53:55]} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	switch {
	case version == "ff", strings.Trim(s[3:35], "0") == "", strings.Trim(s[36:52], "0") == "":
		return false
	case version == "00":
		return rest == ""
	}
	printable := !strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' })
	return rest == "" || rest[0] == '-' && printable
}
