package mcphttp_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/mcp/mcphttp"
)

// streams is how many streams of calls there are.
func (w *world) streams() int {
	page, err := w.log.List(w.Context(), reprise.ListQuery{Namespace: "mcp:", Limit: 1000})
	check(w, err)
	return len(page.Streams)
}

// TestQuick: a response that is there at once is JSON and takes no stream; whatever else happens, there is one.
func TestQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{opts: mcphttp.Options{Quick: 5 * time.Millisecond}})
		c := w.begin("2025-11-25")
		for range 3 {
			c.ids++
			res := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"bytes":3}}}`)
			if text := c.text(res); res.Header.Get("Content-Type") != "application/json" ||
				!strings.Contains(text, `"xxx"`) {
				t.Errorf("%s", text)
			}
		}
		if n := w.streams(); n != 0 {
			t.Errorf("%d streams were made for quick calls", n)
		}
		s := c.tool("steps", toolInput{N: 2}) // quick, and not silent
		s.prime()
		primed := s.lastID
		s.want(progress(1, 4)...)
		s.want(`"done"`)
		s.ends()
		s = c.stream(c.get(primed))
		s.want(progress(1, 4)...)
		s.want(`"done"`)
		s.ends()
		s = c.tool("steps", toolInput{Gate: "g"}) // silent, and not quick
		s.prime()
		w.tools.release("g")
		s.want(`"done"`)
		s.ends()
		s = c.tool("poll", toolInput{Gate: "h"})
		s.prime()
		s.ends()
		w.tools.release("h")
		s = c.stream(c.get(s.lastID))
		s.want(`"polled"`)
		s.ends()
		s = c.tool("ask", toolInput{})
		s.prime()
		c.accepted(`{"jsonrpc":"2.0","id":` + idOf(s.next()) + `,"result":{"roots":[{"uri":"file:///there"}]}}`)
		s.want("file:///there")
		s.ends()

		if n := w.streams(); n != 4 {
			t.Errorf("%d streams were made, want 4", n)
		}
	})
}
