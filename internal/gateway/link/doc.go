// Package link carries JSON-RPC messages to an MCP server and back: to a Process over its stdin and stdout, or to an
// endpoint of Streamable HTTP. It knows requests by the ids that they have at the server, and nothing of the clients
// that they come from.
package link
