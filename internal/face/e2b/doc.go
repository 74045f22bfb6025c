// Package e2b is a face of the server for the SDKs of E2B: it answers the APIs of the daemon in their sandboxes, envd,
// and of their code interpreter, and as much of their control plane as the SDKs need. A process is an execution, a
// sandbox is a session, a code context is an interpreter, and the files are below the server's roots. What works and
// what is different is described in docs/faces/e2b.md.
//
// The face keeps nothing. The number of a process is a part of the id of its execution, and so is good after a restart
// and on another replica.
package e2b
