package bench

import (
	"context"
	"errors"
	"time"
)

// peerPublisher is a fanServer of another project that is published to over HTTP.
type peerPublisher struct {
	*peerServer
	wire *lapWire
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
		publisher := &peerPublisher{p, &lapWire{addr: p.addr}, posts}
		return startFan(fan{publisher, p.addr, request, settle}, scale, fanWholeLap)
	}
}

// peerIdle starts a server in each lap, with readers that wait.
func peerIdle(
	start func(context.Context) (*peerServer, error), request []byte,
) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := start(ctx) // tells whether the program is there
		if err != nil {
			return nil, err
		}
		lap := func(ctx context.Context) (sample Sample, err error) {
			p, err := start(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			memory := func() (int64, error) { return memoryOf(p.cmd.Process.Pid) }
			return idleReaders(p.addr, request, scale.Of(9000, 200), memory)
		}
		return lapFunc(lap), p.Close()
	}
}

// stampedPayload is the data of an event that is published now.
func stampedPayload() []byte {
	payload := newPayload()
	stamp(payload, time.Now())
	return payload
}
