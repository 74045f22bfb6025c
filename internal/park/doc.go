// Package park keeps responses that follow a stream without a goroutine while there is nothing to send. On Linux, a
// response over plain HTTP/1.1 leaves net/http, with its goroutines and buffers, once it has waited for a while. What
// stays in memory is the connection, the position in the stream, and what has to be undone when the response ends.
//
// A parked response is resumed, in a goroutine of its own, by an event, a heartbeat that is due, the end of its
// context, or the client's disconnect, which one epoll instance reports for all of them. It runs the loop of package
// sseloop again, so it sends what it would have sent without parking. Its ResponseWriter writes the chunks of the
// response that net/http began. When the response has ended, the connection goes back to net/http for the next request.
//
// See docs/decisions/0034-parked-readers.md.
package park
