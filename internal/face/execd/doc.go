// Package execd is a face of the server for the SDKs of OpenSandbox: it answers the HTTP API of their daemon, execd. A
// command is an execution, a session and a code context are interpreters, and files are below the server's roots.
// What the SDKs read, and which of it is resumable, is described in docs/faces/execd.md.
//
// The face keeps nothing: what it sends is a function of the events of an execution. Output is sent by lines. A line
// has a number, its eid, which counts the lines of both channels in the order of the events, so that it can be found
// again from the first event on.
package execd
