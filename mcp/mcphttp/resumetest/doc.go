// Package resumetest checks what a client of an MCP server over Streamable HTTP can rely on when it loses its
// connection, at the protocol versions 2025-03-26, 2025-06-18 and 2025-11-25. It speaks plain HTTP, so that no SDK's
// client mends or hides anything, and it runs against any URL:
//
//	reprise check-mcp http://127.0.0.1:8080/mcp
//
// or in a Go test:
//
//	func TestResume(t *testing.T) { resumetest.Run(t, resumetest.Target{URL: url}) }
//
// The server needs one tool, which counts; see Tool. What cannot be tried without reaching behind the URL, such as a
// restart, is tried where Target has a hook for it, and is otherwise "not run", which is not "passed".
//
// Each case has a rule and the source that the rule rests on. Some rules are the specification's; where that is silent
// the rule is what keeps a client from missing something without being told.
package resumetest
