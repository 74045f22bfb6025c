// Package mcpserver offers an execution.Host to language models: an MCP server with the tools
//
//	execute_code            run a command or code, and wait for it
//	execute_code_async      start it and return at once
//	get_execution_output    read output from a cursor, or wait for more
//	search_execution_output find lines of output
//	get_execution_status    see how a run is
//	send_stdin              write to a run
//	cancel_execution        end a run
//	list_executions         find runs
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
// A run does not depend on the connection that started it. If the client has declared the Tasks extension (see package
// mcptask), a run that takes longer than Options.TaskAfter becomes a task, whose status message names the execution, so
// that its output can be read while it runs. Other clients use execute_code_async. A repeated call with an idempotency
// key attaches to the run that it started before.
//
// execute_code returns after wait_seconds even if the run continues, and get_execution_output waits for output, for the
// end or for a match. So a model reads a long run in a few calls that do not exceed a client's timeout.
//
// # What a model is shown
//
// A model reads the text of a result. Tools have no structured content unless events are requested, because hosts show
// a model only one of the two. Data for programs is in _meta under "reprise/execution".
//
// A result has at most max_bytes of output, without escape sequences, with \xNN for bytes that are not text, and
// without what a progress bar has overwritten. Longer output is cut in the middle, with a note that states how many
// bytes are left out and the cursor from which get_execution_output reads them.
//
// # Errors
//
// A failure of a tool is an error of the tool (isError). Its text begins with a code of package problem and a colon;
// the code is also in _meta under "reprise/error". A command that fails is not an error: its exit code reports that. A
// command that could not be started, or was lost with its server, is an error.
package mcpserver
