//go:build linux

package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestEventStreamIsReadAsTheStandardSays: comments and retry are no events, and an event without its empty line is
// dropped.
func TestEventStreamIsReadAsTheStandardSays(t *testing.T) {
	text := "retry: 1000\nid: 1.E.T\nevent: note\ndata: {\"seq\":1,\"data\":\"a\"}\n\n: heartbeat\nid: 2.E.T\nevent: end\ndata: {\"seq\":2}\n\n" +
		"\nid: 3.E.T\nevent: note\ndata: {\"seq\":3}\n"
	var ids []string
	silent := 0
	empty, err := readEventStream(strings.NewReader(text), func(e *item) bool {
		ids = append(ids, e.Cursor+" "+e.id())
		return true
	}, func() { silent++ })
	if got := strings.Join(ids, ", "); got != "1.E.T a, 2.E.T end" || silent != 1 || empty != 1 ||
		!errors.Is(err, io.EOF) {
		t.Errorf("events %q, %d comments, %d empty blocks, %v", got, silent, empty, err)
	}
}
