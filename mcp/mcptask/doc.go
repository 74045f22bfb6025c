// Package mcptask is the Tasks extension of the Model Context Protocol,
// io.modelcontextprotocol/tasks (SEP-2663), for any server of the Go SDK. A call of a
// tool that takes long is answered with a task, which the client asks for until it has ended; tasks are kept in a
// reprise.Log, so they outlive the connection and the server.
//
//	tasks, err := mcptask.New(log, nil)
//	defer tasks.Close()
//	server := mcp.NewServer(&mcp.Implementation{Name: "forecast"}, nil)
//	mcp.AddTool(server, &mcp.Tool{Name: "forecast"}, forecast)
//	tasks.Support("forecast", mcptask.Tool{After: time.Second})
//	err = tasks.Install(server)
//
// The handler stays as it is. For a client that has declared the extension, a call of it that takes longer than a
// second becomes a task: the handler goes on, and the client is told the id. Others wait for the result, as ever.
//
// # What is kept
//
// A task is the stream "mcp-task:<id>" of its tenant, which is made before the client is told of it. Its
// events are what the handler says of itself (state), what the client answers (input) or wants to be over
// (cancel), and one end with the result or the error. There is nothing else: tasks/get reads the stream, on
// whatever replica, and tasks/update and tasks/cancel append to it, wherever the handler runs. The store
// lets a stream end once, so a task has one result, whoever dies when.
//
// A task whose server has died becomes failed, with an error whose data is {"code":"server_lost"}; see also Tool.Lost.
//
// # Who may ask
//
// An id is 130 random bits. A task belongs to the tenant and the principal that made it, see
// Options.Identify; to others it does not exist.
//
// # Versions
//
// The extension is for version 2026-07-28 of the protocol. On older ones nothing is declared, the methods do
// not exist, and calls are answered with their results.
package mcptask
