// Package mcphttp is the Streamable HTTP transport of the Model Context Protocol over
// a reprise.Log: a client that loses its connection in the middle of a call gets the rest of
// it, after a drop, after a restart of the server, and from another replica.
//
//	handler, err := mcphttp.New(log, mcphttp.Server(func(*http.Request) *mcp.Server { return server }), nil)
//	http.Handle("/mcp", handler)
//
// One endpoint serves the versions 2025-03-26, 2025-06-18 and 2025-11-25, which have sessions, and
// 2026-07-28, which has none.
//
// # Sessions and streams
//
// What a session has agreed on is the stream "mcp-session:<session>" of its tenant. Each POST with a
// request is a stream "mcp:<session>/<name>" and what the server says of itself is
// "mcp:<session>/0". An event is one JSON-RPC message; a long one is several. A message is appended first and goes to
// the client when it is kept, so that it makes no difference whether the client is there.
//
// The id of an SSE event names the stream within its session and the position in it, and is authenticated with both:
// one of another session, tenant or stream is refused. It is signed with the keys of the Log, which must be kept
// (reprise.Options.Keys) for it to be good after a restart and on other replicas.
//
// # What answers
//
// A Backend answers what clients send. Server makes one of a *mcp.Server of the Go SDK; a program that
// passes JSON-RPC on implements its own.
package mcphttp
