// Package park keeps responses that follow a stream without a goroutine while there is nothing to send. On Linux, a
// response over plain HTTP/1.1 leaves net/http, with its goroutines and buffers, once it has waited for a while. What
// stays in memory is the connection, the position in the stream, and what has to be undone when the response ends.
//
// A few goroutines write events and heartbeats to the parked responses, without a wait. A response is resumed in a
// goroutine of its own if its connection does not accept all bytes, if events have to be read from the store, at the
// end of the stream or of its context, and when the client disconnects, which one epoll instance reports for all of
// them. It runs the loop of package sseloop again, so it sends what it would have sent without parking. Its
// ResponseWriter writes the chunks of the response that net/http began. When the response has ended, the connection
// goes back to net/http for the next request.
//
// See docs/internals/decisions/0034-parked-readers.md and 0037-a-crew-writes-to-parked-readers.md.
package park
