// Package wire holds the JSON-RPC messages that the gateway reads, changes and writes: the names of the Model Context
// Protocol, the errors that clients are answered with, and the editing of JSON objects whose other members stay as
// they are.
package wire
