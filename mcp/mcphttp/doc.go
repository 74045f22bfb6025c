// Package mcphttp is the Streamable HTTP transport of the Model Context Protocol over
// a reprise.Log. A client that loses its connection in the middle of a call gets the rest of
// the call: after a drop, after a restart of the server, and from another replica.
//
//	handler, err := mcphttp.New(log, mcphttp.Server(func(*http.Request) *mcp.Server { return server }), nil)
//	http.Handle("/mcp", handler)
//
// One endpoint serves the versions 2025-03-26, 2025-06-18 and 2025-11-25, which have sessions, and
// 2026-07-28, which has none.
//
// # Sessions and streams
//
// The state of a session is the stream "mcp-session:<session>" of its tenant. Each POST with a request has a stream
// "mcp:<session>/<name>". Messages of the server that belong to no request are in the stream "mcp:<session>/0". An
// event is one JSON-RPC message; a long message takes several events. A message is appended first and sent to the
// client once it is kept, so it does not matter whether the client is connected.
//
// The id of an SSE event names the stream within its session and the position in it, and is authenticated for both:
// an id of another session, tenant or stream is refused. It is signed with the keys of the Log. For ids to be valid
// after a restart and on other replicas, these keys must be persistent (reprise.Options.Keys).
//
// # Backends
//
// A Backend answers the messages of clients. Server makes one from a *mcp.Server of the Go SDK. A program that
// forwards JSON-RPC implements its own.
package mcphttp
