package mcphttp

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Server is the Backend of servers of the Go SDK. choose says which server answers a request; where it
// returns nil the answer is 404. Requests of one session should get the same server. A server that
// keeps something in a *mcp.ServerSession must know that each POST has one of its own, which all have the ID of the
// session; what was subscribed to is kept for as long as the session is in use in this process.
func Server(choose func(*http.Request) *mcp.Server) Backend { panic("not yet") }
