// Package durable is a face of the server for clients of Durable Streams: it answers the HTTP protocol of that name,
// draft 1.0. A stream of the protocol is a stream of the Log under the same name, so that readers, tickets and the
// command line have it too. What is different is described in docs/faces/durable-streams.md.
//
// The face keeps nothing. What the protocol knows of a stream beside its events lies in the Meta and the labels of the
// stream, and in what the Log remembers of producers. An append of the protocol is an event, in JSON mode one for each
// message, and an offset is the seq of the event before it.
package durable
