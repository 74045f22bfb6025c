// Package wire defines the JSON-RPC messages that the gateway reads, changes and writes: the names of the Model Context
// Protocol, the error responses for clients, and editing of JSON objects that preserves all other members.
package wire
