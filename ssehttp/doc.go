// Package ssehttp lets readers follow the streams of a reprise.Log over HTTP as
// Server-Sent Events, as the HTML standard (section 9.2) has them, with nothing
// that an EventSource in a browser cannot use.
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
//	id: 42.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC
//	event: stdout
//	data: {"seq":42,"time":"2026-11-20T09:30:00.000Z","text":"ok\n"}
//
// A position comes from the header Last-Event-ID or else from the query: "after" is a cursor, "earliest" or "0" (the
// default), or "tail". A position that cannot be read from is refused with a problem document before anything is
// sent, unless the query has "gap=event" and the position lies outside the window: then the response begins with a
// "gap" event and goes on from the fork of an epoch that has changed, or from the earliest event that is kept. A
// reader that is outside the window later always gets a "gap" event. "types=stdout,end" filters; a block with nothing
// but an id then moves the cursor over what was left out, once a heartbeat and before the response ends. It is the
// only block that is no event; with "cursors=event" it is one of type "cursor".
//
// When the stream has ended and everything was sent, the response ends; asked
// again after the end it is 204, which tells an EventSource to stop. A response that ends
// without the end event is a lost connection and nothing else.
package ssehttp
