package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/mcp/mcphttp"
)

// notOffered are the methods, or prefixes of methods, of capabilities that the server does not declare. The SDK would
// answer them with empty lists.
var notOffered = []string{
	"prompts/", "completion/", "logging/", "resources/subscribe", "resources/unsubscribe",
}

// offered is middleware that refuses methods without a capability, and versions that mcphttp does not serve either.
func offered(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if slices.ContainsFunc(notOffered, func(prefix string) bool { return strings.HasPrefix(method, prefix) }) {
			return nil, &jsonrpc.Error{
				Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method %q is not offered", method),
			}
		}
		if params, ok := req.GetParams().(*mcp.InitializeParams); ok && params != nil &&
			!slices.Contains(mcphttp.Versions, params.ProtocolVersion) {
			params.ProtocolVersion = newestWithSessions
		}
		return next(ctx, method, req)
	}
}

// newestWithSessions is the version that is offered to a client which requests an unsupported one.
const newestWithSessions = "2025-11-25"
