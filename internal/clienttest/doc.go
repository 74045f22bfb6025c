// Package clienttest is one suite for clients in all languages. It starts a program that wraps a client, its service,
// lets it follow streams through connections that break, and compares what the program was given with what there is:
// each event once, in order, the end seen, errors that no retry can heal told at once, nothing left behind.
// "reprise check-client -- COMMAND" runs it; docs/clients.md says which rule each case shows.
//
// # The service contract
//
// The suite writes commands to the service's stdin and reads what happened from its stdout, one JSON object a line
// each, in UTF-8. What the service writes to stderr is shown when it fails. Commands run at the same time; each has an
// id, which what belongs to it carries. The service reads commands until the end of stdin; then it exits with code 0.
//
// The first line that it writes says who it is, before any command:
//
//	{"hello":{"name":"my client 1.2","kind":"reprise","can":["types","gap","run","publish"]}}
//
// kind is "reprise" for a client of Reprise, which knows what seq, gap and end mean, and "sse" for a reader of any
// event stream. can names the optional parts: types (filters), gap (tells or raises gaps), tail (after "tail"), run
// (starts executions), publish (publishes once), tls (URLs with https).
//
// Commands:
//
//	{"do":"follow","id":"1","url":"http://127.0.0.1:4000","token":"...","stream":"name","after":"","types":[],
//	 "gap":"yield","min_wait_ms":1,"max_wait_ms":5,"idle_ms":1500,
//	 "source":"http://127.0.0.1:4000/v1/streams/name/events"}
//	{"do":"run","id":"2","url":"...","token":"...","execution":"name","argv":["echo","hello"],...}
//	{"do":"publish","id":"3","url":"...","token":"...","stream":"name","count":100,"at_once":8}
//	{"do":"stop","id":"1"}
//
// follow follows a stream, after a cursor if there is one. url is the server's base; source is the whole URL for
// readers of any source, which send the token as "Authorization: Bearer ..." and the cursor as "Last-Event-ID". The
// waits bound the client's own backoff, and idle_ms is the silence after which a connection is dead; a client without
// such a setting leaves it out. gap is "yield" or "fail". run starts an execution and follows it. Without "execution"
// the client chooses the id; "detach":true lets the command go on when it is stopped. publish publishes count events
// of type "note", whose data is {"n":1}, {"n":2}, ..., each once, in order. With at_once so many tasks share one
// producer: the first publishes 1, 9, 17, ... of 8, each its own in order. stop ends the command of that id.
//
// What is written back:
//
//	{"id":"1","event":{"seq":1,"cursor":"...","type":"note","data":"aGVsbG8="}}
//	{"id":"1","event":{"seq":2,"cursor":"...","type":"note","json":{"n":2}}}
//	{"id":"1","gap":{"code":"cursor_expired","missed":12}}
//	{"id":"1","gap":{"code":"epoch_changed","missed":0,"taken_back":2}}
//	{"id":"1","error":{"code":"not_found","text":"..."}}
//	{"id":"1","done":true}
//
// data is the bytes of the event in base64, json the value of one that was published as JSON, and the members of the
// end. Readers of kind "sse" give cursor (the last event id), type, and data, the whole data field in base64, and no
// seq. done is the last line of a command: after the end of the stream, after an error, and after stop, when nothing
// is left of the command. code is the server's, "" for another failure.
package clienttest
