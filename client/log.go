package client

import (
	"log/slog"
	"os"
)

// The states of a loop, as the debug log names them.
const (
	stateConnecting = "connecting" // a request is sent
	statePolling    = "polling"    // a request is sent whose answer ends soon, since a proxy holds answers back
	stateLive       = "live"       // an event or a heartbeat has come
	stateCaughtUp   = "caught up"  // all events up to the tail at the beginning of the answer have come
	stateWaiting    = "waiting"    // a connection has failed, and the next one comes later
	stateEnded      = "ended"
)

// debugLog returns the logger if it is not nil, and otherwise one to standard error if the environment variable
// REPRISE_LOG is "debug". Neither gets a token.
func debugLog(logger *slog.Logger) *slog.Logger {
	switch {
	case logger != nil:
		return logger
	case os.Getenv("REPRISE_LOG") == "debug":
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// state logs the state of a loop.
func (f *follower) state(name string, args ...any) {
	f.c.log.Debug(name, append([]any{"op", f.op, "cursor", f.track.cursor}, args...)...)
}
