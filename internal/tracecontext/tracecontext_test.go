package tracecontext_test

import (
	"net/http"
	"strings"
	"testing"

	"reprise/internal/tracecontext"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestParentsAreValidated: what the standard calls valid, and what it does not.
func TestParentsAreValidated(t *testing.T) {
	for s, want := range map[string]bool{
		parent:                                 true,
		"":                                     false,
		"cc" + parent[2:]:                      true,
		"cc" + parent[2:] + "-what-is-to-come": true,
		"cc" + parent[2:] + "x":                false,
		"cc" + parent[2:] + "-\n":              false,
		parent + "-more":                       false,
		"ff" + parent[2:]:                      false,
		strings.ToUpper(parent):                false,
		parent[:54]:                            false,
		parent[:3] + strings.Repeat("0", 32) + parent[35:]:  false,
		parent[:36] + strings.Repeat("0", 16) + parent[52:]: false,
		strings.ReplaceAll(parent, "-", "_"):                false,
		parent[:54] + "g":                                   false,
	} {
		c := tracecontext.New(s, "a=1")
		if ok := c.Parent != ""; ok != want || ok != (c.State != "") {
			t.Errorf("%q: %+v", s, c)
		}
		if want && c.TraceID() != parent[3:35] || !want && c.TraceID() != "" {
			t.Errorf("%q: trace id %q", s, c.TraceID())
		}
	}
}

// TestHeadersOfSeveralStates: several states are one list; two parents are none.
func TestHeadersOfSeveralStates(t *testing.T) {
	h := http.Header{"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}}
	if c := tracecontext.Of(h); c.Parent != parent || c.State != "a=1,b=2" {
		t.Errorf("%+v", c)
	}
	h.Set("Tracestate", strings.Repeat("x", 513))
	if c := tracecontext.Of(h); c.Parent != parent || c.State != "" {
		t.Errorf("with a long state: %+v", c)
	}
	h.Add("Traceparent", parent)
	if c := tracecontext.Of(h); c != (tracecontext.Context{}) {
		t.Errorf("with two parents: %+v", c)
	}
}
