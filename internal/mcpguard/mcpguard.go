// Package mcpguard isolates the handlers of an MCP server: a panic fails only its own call, and the SDK's messages
// about connections are logged at debug level.
package mcpguard

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Panics returns middleware that answers a request whose handler panics with an internal error, and logs the panic with
// its stack.
func Panics(logger *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
			defer func() {
				if p := recover(); p != nil {
					Report(logger, method, p)
					result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: Message(method)}
				}
			}()
			return next(ctx, method, req)
		}
	}
}

// Report logs a panic with the stack of the goroutine.
func Report(logger *slog.Logger, method string, p any) {
	logger.Error("the handler of an MCP request has panicked",
		"method", method, "panic", p, "stack", string(debug.Stack()))
}

// Message is what a client is told of a panic.
func Message(method string) string { return "the handler of " + method + " failed" }

// Guarded are the servers that have the middleware of Panics. The zero value is ready, and safe for concurrent use.
type Guarded struct{ servers sync.Map }

// Add gives server the middleware of Panics, once.
func (g *Guarded) Add(server *mcp.Server, logger *slog.Logger) {
	key := weak.Make(server)
	if _, known := g.servers.Load(key); known {
		return
	}
	if _, known := g.servers.LoadOrStore(key, true); known {
		return
	}
	server.AddReceivingMiddleware(Panics(logger))
	runtime.AddCleanup(server, func(key weak.Pointer[mcp.Server]) { g.servers.Delete(key) }, key)
}

// Quiet returns a logger for an mcp.Server that logs at the level of debugging what the SDK logs as information: it
// tells of three things for each connection, and mcphttp makes a connection for each request.
func Quiet(logger *slog.Logger) *slog.Logger { return slog.New(quiet{logger.Handler()}) }

// quiet is the handler of Quiet.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, lower(level))
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lower(r.Level)
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

func lower(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}
