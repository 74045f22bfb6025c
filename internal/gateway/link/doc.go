// Package link transports JSON-RPC messages to an MCP server and back: to a Process over its stdin and stdout, or to an
// endpoint of Streamable HTTP. It identifies requests by their ids at the server and is independent of the clients that
// sent them.
package link
