// Package mcpserver offers an execution.Host to language models: an MCP server with the tools
//
//	execute_code           run a command or code, and wait for it
//	execute_code_async     start it and return at once
//	get_execution_output   read output from a cursor, or wait for more
//	get_execution_status   see how a run is
//	send_stdin             write to a run
//	cancel_execution       end a run
//	list_executions        find runs
//
// and the resources reprise://executions/{id}, .../stdout and .../stderr of runs that have ended, also by ranges of
// bytes.
//
//	server, err := mcpserver.New(log, host, nil)
//	handler, err := mcphttp.New(log, server.Backend(), nil)
//	http.Handle("/mcp", handler)
//
// or, on stdio, server.Run(ctx, &mcp.StdioTransport{}).
//
// # Long runs
//
// A run does not depend on the connection that started it. Where the client has declared the Tasks extension
// (see package mcptask), a run that takes longer than Options.TaskAfter becomes a task, whose status message names the
// execution, so that its output can be read while it runs. Everywhere else there is execute_code_async. A call with an
// idempotency key that is sent again attaches to the run that it started before.
//
// execute_code answers after wait_seconds although a run goes on, and get_execution_output waits for output, for the
// end or for a match, so that a model reads a long run in a few calls that no client gives up on.
//
// # What a model is shown
//
// What a model reads is the text of a result. Tools that return output have no structured content unless events are
// asked for, because hosts show a model one of the two; what programs need is in _meta under "reprise/execution".
//
// Output can be endless and the attention of a model is not: what a call shows is at most max_bytes long, without
// escape sequences, and cut in the middle, with a note that says how many bytes are left out and from which
// cursor get_execution_output reads them.
//
// # Errors
//
// What a tool cannot do is an error of the tool (isError), whose text begins with one of the codes of package
// problem and a colon, which are in _meta under "reprise/error" too. A command that fails is no error:
// its exit code says so. One that could not be started, or was lost with its server, is.
package mcpserver
