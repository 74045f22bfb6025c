package natsstore

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// bound is a connection for requests that may reach one start of a server only. It does not reconnect, so what was sent
// on it never reaches another start: on a connection that reconnects, a request that waits for its turn to be sent may.
type bound struct {
	url  string
	opts []nats.Option

	mu sync.Mutex
	nc *nats.Conn // nil while there is none
}

// request sends a request to the server of an id and returns the answer. The error is errWrongLast if another server
// answers at the address.
func (b *bound) request(ctx context.Context, server, subject string, body []byte) (*nats.Msg, error) {
	nc, err := b.connection(server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return nil, unavailable(err)
	}
	return msg, nil
}

func (b *bound) connection(server string) (*nats.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nc != nil && !b.nc.IsConnected() {
		b.nc.Close()
		b.nc = nil
	}
	if b.nc == nil {
		nc, err := nats.Connect(b.url, b.opts...)
		if err != nil {
			return nil, unavailable(err)
		}
		b.nc = nc
	}
	if b.nc.ConnectedServerId() != server {
		return nil, errWrongLast
	}
	return b.nc, nil
}

func (b *bound) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nc != nil {
		b.nc.Close()
	}
}
