// Package resumetest checks whether clients of an MCP server over Streamable HTTP can resume after a lost connection,
// at the protocol versions 2025-03-26, 2025-06-18 and 2025-11-25. It speaks plain HTTP, so that no SDK hides or repairs
// anything, and it runs against any URL:
//
//	reprise check-mcp http://127.0.0.1:8080/mcp
//
// or in a Go test:
//
//	func TestResume(t *testing.T) { resumetest.Run(t, resumetest.Target{URL: url}) }
//
// The server needs one tool, which counts; see Tool. A case that needs access behind the URL, such as a restart, runs
// if Target has a hook for it. Otherwise its outcome is "not run", which is not "passed".
//
// Each case has a rule and the source of the rule. Some rules are those of the specification. Where the specification
// says nothing, the rule is what a client needs in order to miss nothing silently.
package resumetest
