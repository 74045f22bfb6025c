package main

import (
	"context"
	"net"
)

// handover is what a server gives its socket away by, which no server on Windows does.
type handover struct{}

func (*handover) close() error { return nil }

func (*server) offer(please context.Context) context.Context { return please }

func isTakenOver(context.Context) bool { return false }

// takeOverFlag stands for the flag of other systems.
type takeOverFlag struct{}

func (*takeOverFlag) take(_ context.Context, path string) (*dataDir, net.Listener, error) {
	dir, err := lockDataDir(path)
	return dir, nil, err
}
