package node

import (
	"context"
	"net"

	"reprise/internal/datadir"
)

// handover is what a server gives its socket away by, which no server on Windows does.
type handover struct{}

func (*handover) close() error { return nil }

// Offer offers nothing: no server on Windows takes over from another.
func (*Node) Offer(please context.Context) context.Context { return please }

func isTakenOver(context.Context) bool { return false }

func take(_ context.Context, o *Options) (*datadir.Dir, net.Listener, error) {
	dir, err := datadir.Lock(o.Data)
	return dir, nil, err
}
