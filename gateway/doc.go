// Package gateway puts the transport of package mcphttp in front of MCP servers that are not ours: a
// command that speaks over its stdin and stdout, or a URL that speaks Streamable HTTP. Clients get sessions
// that outlive connections and restarts, streams that resume, and both eras of the protocol, and the
// server behind is not changed.
//
//	g, err := gateway.New(&gateway.Upstream{Command: []string{"npx", "some-mcp-server"}}, nil)
//	handler, err := mcphttp.New(log, g, nil)
//	http.Handle("/mcp", handler)
//
// # Connections to the upstream
//
// An upstream has one connection, which for a command is one process, for each session; or, with
// Upstream.Shared, one for all. Clients of version 2026-07-28 have no sessions: those of one principal that say the same
// of themselves share one.
//
// # What is lost when an upstream ends
//
// Requests that it had not answered are answered with an error whose data say "upstream_lost". They are never sent again:
// whether they were carried out is not known. The next request begins a new connection, to which is said what the
// session had agreed on: its initialize request, its log level and its subscriptions. What else the upstream knew of the session is gone; where
// that is more than can be missed, Upstream.KeepsState has later requests of the session refused.
package gateway
