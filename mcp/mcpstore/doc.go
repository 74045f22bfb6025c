// Package mcpstore is a durable event store for MCP servers of other libraries. New returns an mcp.EventStore of the
// official Go SDK, NewForMCPGo a server.EventStore of mcp-go. Both keep their events in a reprise.Log, and so in
// memory, in SQLite or in any other Store.
//
//	events := mcpstore.New(log, nil)
//	defer events.Close()
//	handler := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{EventStore: events})
//
// Each stream of a session is a stream of the Log, named "mcpstore.<session>:<stream>". No client can read the events
// of another session, whatever id it sends: the session is part of the name, and an id of mcp-go is a cursor, which is
// valid for one name only.
//
// # When the store fails
//
// The Go SDK numbers the events of a stream itself, and it counts a message that could not be stored. Its numbers would
// then differ from the numbers of a simple store, and a later message would be lost. With this package a number never
// shifts: message i of a stream is event i+1.
//
//   - If the store is unavailable during an append, the message stays in memory and Append returns. Messages are stored
//     in order once the store is back, each once, by an idempotent producer. Until then a resume gets them from memory.
//   - All such pending messages take at most Options.MaxPendingBytes. If there is no room, an append waits up to
//     Options.MaxWait, which slows the server down.
//   - A message for which there was no room, or which is larger than an event of the Log may be, is not kept: the
//     append returns an error and the message keeps its number. A request for events from before it is refused as if
//     they had been purged (mcp.ErrEventsPurged). After it the stream is complete.
//   - A process that ends before the store is back loses its pending messages. An id beyond the stored messages is
//     refused.
//
// # How long streams are kept
//
// These streams have no end, so the Log does not sweep them; this package does. A stream whose last message is a
// response is removed Options.Retention.MaxAge after it, by default 1 hour. Any other stream, such as the stream of a
// running call, is kept while its session is open in this process, and otherwise until Options.MaxSilence after its
// last message.
//
// # Limitations
//
// The SDKs keep their sessions in memory. After a restart, or on another replica, their servers do not know the session
// and answer 404, so the stored events cannot be used. A fresh GET of the Go SDK asks for the whole history of its
// stream, and is refused once a part of it is gone. Package mcphttp has neither limitation.
package mcpstore
