// Package mcptask implements the Tasks extension of the Model Context Protocol,
// io.modelcontextprotocol/tasks (SEP-2663), for any server of the Go SDK. A long call of a
// tool is answered with a task, which the client polls until it has ended. Tasks are stored in a
// reprise.Log, so they outlive the connection and the server.
//
//	tasks, err := mcptask.New(log, nil)
//	defer tasks.Close()
//	server := mcp.NewServer(&mcp.Implementation{Name: "forecast"}, nil)
//	mcp.AddTool(server, &mcp.Tool{Name: "forecast"}, forecast)
//	tasks.Support("forecast", mcptask.Tool{After: time.Second})
//	err = tasks.Install(server)
//
// The handler does not change. For a client that has declared the extension, a call that takes longer than a
// second becomes a task: the handler continues, and the client gets the id. Other clients wait for the result as usual.
//
// # What is stored
//
// A task is the stream "mcp-task:<id>" of its tenant, which is created before the client learns of it. Its events are
// the progress reports of the handler (state), the answers of the client (input), a request to cancel (cancel), the
// servers that have resumed it (taken), and one end with the result or the error. There is no other state. tasks/get
// reads the stream, on any replica, and tasks/update and tasks/cancel append to it, wherever the handler runs. The
// store lets a stream end once, so a task has exactly one result.
//
// A task whose server has died is continued by the next server if its tool has Tool.Resume. Otherwise it becomes
// failed, with an error whose data is {"code":"server_lost"}.
//
// # Access
//
// An id is 130 random bits. A task belongs to the tenant and the principal that created it, see
// Options.Identify. For others it does not exist.
//
// # Versions
//
// The extension is for version 2026-07-28 of the protocol. With older versions nothing is declared, the methods do
// not exist, and calls are answered with their results.
package mcptask
