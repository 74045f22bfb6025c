// Package ssehttp lets readers follow the streams of a reprise.Log over HTTP as
// Server-Sent Events, as defined in the HTML standard (section 9.2). An EventSource
// in a browser can use all of it.
//
//	GET /events HTTP/1.1
//	Last-Event-ID: 41.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC
//
//	HTTP/1.1 200 OK
//	Content-Type: text/event-stream
//	Stream-Earliest: 0.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC
//	Stream-Tail: 42.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC
//
//	retry: 1000
//	event: stdout
//	data: {"seq":42,"time":"2026-11-20T09:30:00.000Z","text":"ok\n"}
//	id: 42.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC
//
// A position comes from the header Last-Event-ID or else from the query: "after" is a cursor, "0" (the default, the
// first event), "earliest" (what is kept), or "tail". A position that cannot be read from is refused with a problem
// document before anything is sent.
//
// With "gap=event" in the query, a position outside the window is not refused. The response begins with a "gap" event
// and continues from the fork if the epoch has changed, and otherwise from the earliest kept event. So does one to a
// reader of the first event if that is gone; without "gap=event" it begins with the earliest kept one. A reader that
// falls out of the window later always gets a "gap" event.
//
// "types=stdout,end" filters. Once per heartbeat and before the response ends, a block with nothing but an id then
// moves the cursor past the filtered events. It is the only block that is not an event; with "cursors=event" it is an
// event of type "cursor".
//
// When the stream has ended and everything was sent, the response ends. A request after the end is answered with 204,
// which makes an EventSource stop. A response that ends without the end event is a lost connection.
package ssehttp
