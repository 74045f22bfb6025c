package httpserver

import (
	"log/slog"
	"net"
	"sync"
	"time"

	"reprise/internal/backoff"
)

// patient is a listener whose Accept outlasts a lack of descriptors, memory and watches.
type patient struct {
	net.Listener
	logger *slog.Logger
	closed chan struct{}
	once   sync.Once
	told   time.Time // guarded by the one caller of Accept
}

// The pauses between two attempts to accept a connection, and the time between two lines in the log.
const (
	minAcceptWait = 5 * time.Millisecond
	maxAcceptWait = time.Second
	tellAccept    = time.Minute
)

// Patient returns a listener on l that accepts again after a pause if the system cannot give a connection. Without it,
// http.Server.Serve ends if, for instance, another process of the same user has taken all epoll watches: then that
// process may bind the address. It is logged, once a minute at most; a nil logger is silent. One goroutine at a time
// calls Accept.
func Patient(l net.Listener, logger *slog.Logger) net.Listener {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &patient{Listener: l, logger: logger, closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (p *patient) Accept() (net.Conn, error) {
	wait := backoff.Backoff{First: minAcceptWait, Most: maxAcceptWait}
	for {
		conn, err := p.Listener.Accept()
		if err == nil || !passes(err) {
			return conn, err
		}
		if now := time.Now(); now.Sub(p.told) >= tellAccept {
			p.told = now
			p.logger.Error("a connection cannot be accepted; trying again", "error", err)
		}
		select {
		case <-p.closed:
			return nil, net.ErrClosed
		case <-time.After(wait.Next()):
		}
	}
}

// Close implements net.Listener.
func (p *patient) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Listener.Close()
}
