// Package e2b is a face of the server for the SDKs of E2B: it answers the API of the daemon in their sandboxes, envd,
// that of their code interpreter, and as much of their control plane as the SDKs need. A process is an execution, a
// sandbox is a session, a code context is an interpreter, and files are those of the server's roots. What works and
// what is different is described in docs/faces/e2b.md.
//
// The face keeps nothing. The number of a process is a part of the id of its execution, and so is good after a restart
// and on another replica.
package e2b
