package bench

import (
	"context"
	"errors"
	"time"
)

// peerPublisher is a fanServer of another project that is published to over HTTP, on one connection.
type peerPublisher struct {
	*peerServer
	wire *wire
	// posts are the requests that publish n events to the stream of the readers.
	posts func(n int) [][]byte
}

func (p *peerPublisher) burst(n int) error {
	for _, r := range p.posts(n) {
		if err := p.wire.do(r); err != nil {
			return err
		}
	}
	return nil
}

func (p *peerPublisher) steady(n int) error {
	return steadily(n, func() error { return p.burst(1) })
}

// Close closes the connection and ends the server.
func (p *peerPublisher) Close() error { return errors.Join(p.wire.Close(), p.peerServer.Close()) }

// peerFan starts a server, and readers that each send a request.
func peerFan(
	start func(context.Context) (*peerServer, error), request []byte, posts func(n int) [][]byte,
) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := start(ctx)
		if err != nil {
			return nil, err
		}
		w, err := dialWire(p.addr)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		return startFan(fan{&peerPublisher{p, w, posts}, p.addr, request, settle}, scale, fanWholeLap)
	}
}

// stampedPayload is the data of an event that is published now.
func stampedPayload() []byte {
	payload := newPayload()
	stamp(payload, time.Now())
	return payload
}
