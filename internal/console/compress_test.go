package console_test

import (
	"fmt"
	"testing"
)

// TestBrowserReadsCompressedEvents: an EventSource is sent compressed events, and is given each at once: those of the
// replay, of which there are several pieces, and live ones.
func TestBrowserReadsCompressedEvents(t *testing.T) {
	t.Parallel()
	s := startOpenServer(t)
	p := startBrowser(t).open(t, 800, 600)
	s.call("PUT", "/v1/streams/s", map[string]any{})
	publish := func(from, to int) {
		var events []map[string]any
		for i := from; i <= to; i++ {
			events = append(events,
				map[string]any{"type": "note", "data": fmt.Sprintf("event %d of many that are much alike", i)})
		}
		s.call("POST", "/v1/streams/s/events", map[string]any{"events": events})
	}
	publish(1, 1000)
	publish(1001, 2000)
	p.visit(s.url + "/")
	p.eval(`(async () => {
		const asked = new AbortController()
		const response = await fetch("/v1/streams/s/events", {headers: {Accept: "text/event-stream"}, signal: asked.signal})
		window.coding = response.headers.get("Content-Encoding")
		asked.abort()
		window.seqs = []
		window.source = new EventSource("/v1/streams/s/events")
		source.addEventListener("note", e => seqs.push(JSON.parse(e.data).seq))
	})()`)
	p.until(`window.coding === "zstd" || window.coding === "gzip"`)
	p.until(`window.seqs.length === 2000`)
	for i := 2001; i <= 2010; i++ { // each is published when the page has the one before
		publish(i, i)
		p.until(fmt.Sprintf(`window.seqs.length === %d`, i))
	}
	if whole := p.eval(`window.seqs.every((seq, i) => seq === i + 1)`); whole != true {
		t.Error("events are missing, or came twice")
	}
	t.Log("coding:", p.eval(`window.coding`))
	p.eval(`window.source.close()`)
}
