// Package sseclient reads Server-Sent Events from any source, over connections that break. It is what an EventSource is
// to a page, for Go programs:
//
//	source, err := sseclient.New("https://example.org/events", nil)
//	if err != nil {
//		return err
//	}
//	for event, err := range source.Events(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.Type, string(event.Data))
//	}
//
// A loop goes on until the source answers 204, which ends a stream, refuses the request, or ctx is done. A connection
// that is lost, or whose answer ends, is made again, with the id of the last event that the loop has handled in the
// header Last-Event-ID. Whether that means no event is missed or doubled depends on the source: the format promises
// nothing. For a server of Reprise use package client, which proves it.
//
// # Waiting
//
// Before each further connection the client waits for what the source has asked for, by a retry field or by the header
// Retry-After, and a random part of a span on top, which doubles with each failure in a row (full jitter). A block of
// events makes the next failure the first one again.
//
// # What is refused
//
// The statuses 408, 425, 429, 500, 502, 503 and 504 pass; the client tries again. Any other status but 200, and any
// content type but text/event-stream, ends the loop with a [*StatusError] or an error that wraps [ErrContentType], as
// the HTML standard has it. Redirects are followed; the headers of Options.Header go to the origin of the URL alone.
//
// # Limits
//
// A line, and the data of an event, have at most Options.MaxBytes; what is longer ends the loop with sse.ErrTooLong.
// With Options.IdleTimeout a connection that brings no byte for so long is given up.
package sseclient
