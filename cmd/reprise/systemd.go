package main

import (
	"log/slog"
	"net"
	"os"
)

// notifySystemd tells the service manager of our state, if it has asked for that; see sd_notify(3).
func notifySystemd(logger *slog.Logger, state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", socket) // a name in the abstract namespace begins with @, as net wants it
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte(state))
	}
	if err != nil {
		logger.Warn("the service manager cannot be told", "state", state, "error", err)
	}
}
