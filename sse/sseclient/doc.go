// Package sseclient reads Server-Sent Events from any source, over connections that break. It is the equivalent of a
// browser's EventSource for Go programs:
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
// A loop runs until the source answers 204, which ends a stream, until it refuses the request, or until ctx is done.
// After a lost connection, or an answer that ends, the client reconnects. The header Last-Event-ID has the id of the
// last event that the loop has handled. Whether events are then missed or duplicated depends on the source, because the
// format guarantees nothing. For a server of Reprise use package client, which checks it.
//
// # Requests that are not repeated
//
// A method that is not idempotent, such as POST, is sent once: after a lost connection, or an answer that ends, the
// loop ends with an error that wraps [ErrNotRepeated], and [ErrDropped] if the answer has ended properly. A request
// that has not reached the source, or was refused with 429, is sent again. Options.Repeat allows every repetition.
//
// # Waiting
//
// Before it reconnects, the client waits as long as the source asks, by a retry field or the header Retry-After, plus
// a random part of a span that doubles with each consecutive failure (full jitter). A block of events resets the
// number of failures.
//
// # Refusals
//
// After the statuses 408, 425, 429, 500, 502, 503 and 504 the client retries. Any other status except 200, and any
// content type except text/event-stream, ends the loop with a [*StatusError] or an error that wraps [ErrContentType],
// as the HTML standard demands. Redirects are followed. The headers of Options.Header go only to the origin of the URL.
//
// # Limits
//
// A line, and the data of an event, have at most Options.MaxBytes. A longer one ends the loop with sse.ErrTooLong.
// With Options.IdleTimeout the client gives up a connection after that time without a byte.
package sseclient
