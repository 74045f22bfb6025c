// Package relay makes the streaming answers of a backend resumable. It passes requests on, and records answers that are
// Server-Sent Events or NDJSON as streams of a Log while they are read. A client that is cut off comes back by the id
// of the last event that it has, by the address of the recording, or by the same request under the same key, and gets
// the rest. The backend is called once.
//
// A recording is the stream "relay:NAME". Its events are
//
//	head   the status and the headers of the answer, as JSON
//	block  an event of Server-Sent Events, up to and with its blank line, without an id of its own
//	own    the same with an id of its own
//	part   bytes that are no whole event: the beginning of a long one, NDJSON, or what comes before a missing end
//
// and it ends as completed, if the backend has finished its answer, cancelled, failed or lost. Only a completed one is
// answered like a whole answer; others are cut off where they end.
package relay
