package resumetest

// The sources of the rules. Sections are those of the page "Transports" of the specification, under Streamable HTTP.
const (
	own = "Reprise: the specification is silent, and a client would miss something without being told"

	specIDs        = "MCP, Resumability and Redelivery: an id MUST be unique across all streams of the session"
	specPriming    = "MCP 2025-11-25, Sending Messages: the server SHOULD begin a stream with an event of an id and empty data"
	specDisconnect = "MCP, Sending Messages: a disconnection SHOULD NOT be taken for a cancellation"
	specResume     = "MCP, Resumability and Redelivery: the messages after Last-Event-ID are replayed on the stream that was cut"
	specEnd        = "MCP, Sending Messages: the server SHOULD end the stream after the response"
	specStream     = "MCP, Resumability and Redelivery: the server MUST NOT replay messages of a different stream"
	specOne        = "MCP, Multiple Connections: each message MUST be sent on only one of the connected streams"
	specSession    = "MCP, Session Management: a session that has been ended MUST be answered with 404"
	specPrincipal  = "MCP, Security Best Practices: a session MUST NOT stand for authentication"
)
