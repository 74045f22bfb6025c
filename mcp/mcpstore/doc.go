// Package mcpstore gives the MCP servers of others a durable event store: New is an mcp.EventStore of the official Go
// SDK, NewForMCPGo a server.EventStore of mcp-go. Both keep their events in a reprise.Log, so in memory, in SQLite or
// in whatever its Store is.
//
//	events := mcpstore.New(log, nil)
//	defer events.Close()
//	handler := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{EventStore: events})
//
// Each stream of a session is a stream of the Log, named "mcpstore.<session>:<stream>". Nobody reads another
// session's events, whatever id is sent: the session is part of the name, and an id of mcp-go is a cursor, which is
// good for one name alone.
//
// # When the store fails
//
// The Go SDK numbers the events of a stream itself and counts a message that could not be stored, so that from then
// on its numbers and a store's own would differ and a later message be lost. Here a number never shifts: message i of
// a stream is event i+1.
//
//   - An append that finds the store unavailable keeps its message in memory and returns. Messages are stored in their
//     order once the store is back, by an idempotent producer, so once each. Until then a resume gets them from memory.
//   - All messages that wait so take at most Options.MaxPendingBytes. Where there is no room, an append waits up to
//     Options.MaxWait, which holds the server back.
//   - A message for which there was no room, or which is larger than an event of the Log may be, is not kept: the
//     append returns an error and the message keeps its number. Who asks for events from before it is refused as if
//     they had been purged (mcp.ErrEventsPurged); from after it the stream is whole.
//   - A process that ends before the store is back loses the messages that wait. An id beyond what is stored is
//     refused.
//
// # How long streams are kept
//
// These streams have no end, so the Log does not sweep them; this package does. A stream whose last message is a
// response is removed Options.Retention.MaxAge after it, 1 hour where nothing is said. Any other, such as that of a
// call that runs, is kept while its session is open in this process, and otherwise Options.MaxSilence after its last
// message.
//
// # What it cannot mend
//
// The SDKs keep their sessions in memory: after a restart, or on another replica, their servers do not know the
// session and answer 404, and the events are of no use to them. A fresh GET of the Go SDK asks for the whole history
// of its stream, and is refused once some of it has gone. Package mcphttp has neither limit.
package mcpstore
