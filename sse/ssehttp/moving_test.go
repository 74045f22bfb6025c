package ssehttp_test

import (
	"net/http"
	"testing"

	"reprise"
)

// TestGapWhileTheWindowMoves: a reader that takes gaps as events is let in however fast the window moves on.
func TestGapWhileTheWindowMoves(t *testing.T) {
	var s *reprise.Stream
	next := 9
	site := newSite(t, &reprise.Options{Hooks: &reprise.Hooks{ReaderOpened: func(_ reprise.StreamKey, err error) {
		if err != nil { // the window moves past what the refusal names
			add(t, s, numbered(next, 5)...)
			next += 5
		}
	}}}, nil)
	s = create(t, site.log, "s", reprise.Retention{MaxEvents: 3})
	add(t, s, numbered(1, 8)...)
	for _, position := range []string{s.Cursor(1).String(), s.Cursor(5).String()} {
		res := site.get(t, "s", position, "gap=event")
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d", res.StatusCode)
		}
		res.Body.Close()
	}
}
