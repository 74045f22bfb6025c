package web

import (
	"net/http"
	"testing"
)

// TestCommonHeadersAreCanonicalAndShared: http.Header finds them, and what a response adds is its own.
func TestCommonHeadersAreCanonicalAndShared(t *testing.T) {
	for _, common := range commonHeaders {
		h := http.Header{common.name: common.value}
		h.Add(common.name, "more")
		if got := h.Values(common.name); len(got) != 2 || len(common.value) != 1 || cap(common.value) != 1 {
			t.Errorf("%s: %q, and for all responses %q", common.name, got, common.value)
		}
	}
}
