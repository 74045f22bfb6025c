// Package gateway serves MCP servers through the transport of package mcphttp: a command that speaks over its stdin
// and stdout, or a URL that speaks Streamable HTTP. Clients get sessions that outlive connections and restarts,
// streams that resume, and all versions of the protocol. The server behind, the upstream, is not changed.
//
//	g, err := gateway.New(&gateway.Upstream{Command: []string{"npx", "some-mcp-server"}}, nil)
//	handler, err := mcphttp.New(log, g, nil)
//	http.Handle("/mcp", handler)
//
// # The way of a tools/call
//
// 1. mcphttp hands the POST to [Gateway.Serve], which decides by the version and the method who serves it.
//  2. [Gateway.serveSession] or [Gateway.serveStateless] makes a [delivery], with a [clientRequest] and an [inbox].
//  3. [Gateway.sessionConnection] or [Gateway.poolConnection] finds the [slot], which returns or makes a [connection].
//  4. [delivery.start] picks the [translation] between the versions of client and upstream, and sends the request.
//  5. [connection.call] enters a [call] in the [callTable], which gives it its id at the upstream, and sends it.
//  6. [link.Link] carries it: [link.Process] as a line to stdin, [link.HTTP] as a POST.
//  7. What the upstream says comes to [connection.Receive], in the goroutine that reads the link.
//  8. [connection.takeResponse] finds the call by its id; [call.respond] pushes the response to the inbox.
//  9. [delivery.run] takes it from there, and [delivery.respond] has the translation make it the client's.
//  10. mcphttp keeps the response in the stream of the session and sends it to the client.
//
// Notifications and questions of the upstream take the same way back: [connection.takeNotification] and
// [connection.takeQuestion] find the request that they belong to. A call under way when its link ends is answered by
// [connection.failCalls].
//
// # Connections to the upstream
//
// Each session has its own connection, which for a command is a process. With Upstream.Shared all sessions have one.
// Clients of version 2026-07-28 have no sessions: those of one principal that declare the same capabilities share a
// connection.
//
// # When an upstream ends
//
// Requests without a response are answered with an error whose data say "upstream_lost". They are never sent again,
// because it is unknown whether they were executed. The next request makes a new connection, on which the gateway
// repeats the state of the session: its initialize request, its log level and its subscriptions. Any other state of the
// session in the upstream is lost. If that matters, set Upstream.KeepsState, which refuses later requests of the
// session.
package gateway
