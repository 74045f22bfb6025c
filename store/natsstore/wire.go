package natsstore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// wire is the connection of a Store. Requests with several answers, and groups of concurrent requests, share one
// subscription to an inbox.
type wire struct {
	nc     *nats.Conn
	inbox  string // with the dot at its end
	logger *slog.Logger
	next   atomic.Uint64

	mu       sync.Mutex
	up       chan struct{} // closed while connected
	isUp     bool
	awaiters map[uint64]awaiter
	// returned is called from a goroutine of the connection after each reconnect.
	returned func()
	// denied is the last permission error of a subject. The server does not associate it with a request.
	denied error

	bound bound
	// clustered is the last known result of inCluster.
	clustered atomic.Bool
}

// awaiter receives the answers to a request. Its methods are called by one goroutine at a time and must not block.
type awaiter interface {
	answer(i int, msg *nats.Msg)
	fail(err error)
}

// connect opens the connection. It does not wait for a server that cannot be reached.
func connect(ctx context.Context, set *settings) (*wire, error) {
	url, opts, logger := set.url, set.NATS, set.Logger
	w := &wire{logger: logger, up: make(chan struct{}), isUp: true, awaiters: map[uint64]awaiter{}}
	w.bound.url, w.bound.opts = url, append(slices.Clone(opts), nats.Name("reprise"), nats.NoReconnect())
	close(w.up)
	dial := 5 * time.Second // includes the login
	if deadline, ok := ctx.Deadline(); ok {
		dial = min(dial, max(time.Millisecond, time.Until(deadline)))
	}
	opts = append([]nats.Option{
		nats.Name("reprise"),
		nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectJitter(50*time.Millisecond, 100*time.Millisecond),
		// Do not buffer messages while disconnected: their callers would not know.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.Timeout(dial),
		// A write that the server does not accept blocks all others.
		nats.FlusherTimeout(set.Timeout / 2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { w.down(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { w.reconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { w.asyncError(sub, err) }),
	}, opts...)
	var err error
	if w.nc, err = nats.Connect(url, opts...); err != nil {
		return nil, err
	}
	w.inbox = nats.NewInbox() + "."
	sub, err := w.nc.Subscribe(w.inbox+">", w.dispatch)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		w.nc.Close()
		return nil, err
	}
	w.inCluster()
	return w, nil
}

// inCluster reports whether the connected server belongs to a cluster. While there is no connection the client does not
// know, and the result comes from the last connection.
func (w *wire) inCluster() bool {
	reconnects := w.nc.Stats().Reconnects
	name := w.nc.ConnectedClusterName()
	// "" is the name of no cluster only if the connection existed all the time.
	if name != "" || w.nc.ConnectedServerId() != "" && w.nc.Stats().Reconnects == reconnects {
		w.clustered.Store(name != "")
	}
	return w.clustered.Load()
}

// dispatch passes an answer to its awaiter. It drops answers that come too late.
func (w *wire) dispatch(msg *nats.Msg) {
	id, index, many := strings.Cut(msg.Subject[len(w.inbox):], ".")
	n, err := strconv.ParseUint(id, 36, 64)
	if err != nil {
		return
	}
	i := 0
	if many {
		if i, err = strconv.Atoi(index); err != nil {
			return
		}
	}
	w.mu.Lock()
	a := w.awaiters[n]
	w.mu.Unlock()
	if a != nil {
		a.answer(i, msg)
	}
}

// await registers a and returns the reply subject for its answers.
func (w *wire) await(a awaiter) (id uint64, reply string) {
	id = w.next.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaiters[id] = a
	return id, w.inbox + strconv.FormatUint(id, 36)
}

func (w *wire) leave(id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.awaiters, id)
}

// failAll tells all awaiters that no answer will come.
func (w *wire) failAll(err error) { w.failOlder(w.next.Load(), err) }

// failOlder tells the awaiters up to id that no answer will come.
func (w *wire) failOlder(id uint64, err error) {
	w.mu.Lock()
	var older []awaiter
	for n, a := range w.awaiters {
		if n <= id {
			older = append(older, a)
		}
	}
	w.mu.Unlock()
	for _, a := range older {
		a.fail(err)
	}
}

func (w *wire) down(err error) {
	w.mu.Lock()
	if w.isUp {
		w.isUp, w.up = false, make(chan struct{})
	}
	w.mu.Unlock()
	w.failAll(unavailable(errLost))
	if err != nil {
		w.logger.Warn("connection to NATS lost", "error", err)
	}
}

func (w *wire) reconnected() {
	w.mu.Lock()
	if !w.isUp {
		w.isUp = true
		close(w.up)
	}
	returned := w.returned
	w.mu.Unlock()
	w.logger.Info("connected to NATS again", "server", w.nc.ConnectedServerName())
	if returned != nil {
		returned()
	}
}

func (w *wire) asyncError(sub *nats.Subscription, err error) {
	w.logger.Warn("NATS", "error", err)
	if errors.Is(err, nats.ErrPermissionViolation) {
		w.mu.Lock()
		w.denied = err
		w.mu.Unlock()
		w.failAll(unavailable(err))
	}
	if errors.Is(err, nats.ErrSlowConsumer) && sub != nil {
		// Wake-ups of unknown streams were dropped.
		w.mu.Lock()
		returned := w.returned
		w.mu.Unlock()
		if returned != nil {
			returned()
		}
	}
}

// ready waits until there is a connection.
func (w *wire) ready(ctx context.Context) error {
	w.mu.Lock()
	up := w.up
	w.mu.Unlock()
	select {
	case <-up:
		return nil
	default:
	}
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// close closes the connection and fails all awaiters.
func (w *wire) close() {
	w.failAll(unavailable(errLost))
	w.nc.Close()
	w.bound.close()
}

// replies collects the answers to one request.
type replies struct {
	mu    sync.Mutex
	msgs  []*nats.Msg
	err   error
	fresh chan struct{} // has room for one
}

func (r *replies) answer(_ int, msg *nats.Msg) {
	r.mu.Lock()
	r.msgs = append(r.msgs, msg)
	r.mu.Unlock()
	r.signal()
}

func (r *replies) fail(err error) {
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
	r.signal()
}

func (r *replies) signal() {
	select {
	case r.fresh <- struct{}{}:
	default:
	}
}

// take waits for answers and returns those that have arrived.
func (r *replies) take(ctx context.Context) ([]*nats.Msg, error) {
	for {
		r.mu.Lock()
		msgs, err := r.msgs, r.err
		r.msgs = nil
		r.mu.Unlock()
		switch {
		case len(msgs) > 0:
			return msgs, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-r.fresh:
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
}

// askAgain is the time after which a request is repeated: some are lost while a cluster has no leader for a stream.
const askAgain = 2500 * time.Millisecond

// retryEvery is the pause before a server that has no leader for the stream yet is asked again.
const retryEvery = 50 * time.Millisecond

// ask sends a request and calls got with each message of the answer until got returns false. It repeats the request if
// no server answers yet or the connection is lost, so the second request must not change anything that the first did
// not.
func (w *wire) ask(ctx context.Context, subject string, body []byte, got func(*nats.Msg) (more bool, err error)) error {
	for started := false; ; {
		err := w.ready(ctx)
		if err == nil {
			attempt, cancel := context.WithTimeoutCause(ctx, askAgain, errTimeout)
			err = w.askOnce(attempt, subject, body, func(msg *nats.Msg) (bool, error) {
				if status(msg) == noResponders {
					return false, errNobody
				}
				started = true
				return got(msg)
			})
			cancel()
		}
		passes := errors.Is(err, errNobody) || errors.Is(err, errLost) || errors.Is(err, errTimeout)
		switch {
		case ctx.Err() != nil && passes:
			return ended(ctx)
		case started && passes:
			return unavailable(err)
		case !passes:
			return err
		}
		if err := pause(ctx, retryEvery); err != nil {
			return err
		}
	}
}

func (w *wire) askOnce(
	ctx context.Context, subject string, body []byte, got func(*nats.Msg) (more bool, err error),
) error {
	r := &replies{fresh: make(chan struct{}, 1)}
	id, reply := w.await(r)
	defer w.leave(id)
	if err := w.nc.PublishRequest(subject, reply, body); err != nil {
		return w.sendError(err)
	}
	for {
		msgs, err := r.take(ctx)
		if err != nil {
			return err
		}
		for _, msg := range msgs {
			if more, err := got(msg); err != nil || !more {
				return err
			}
		}
	}
}

// sendError maps an error of the client. The client returns several kinds of errors after it has lost a connection and
// before it reports the loss.
func (w *wire) sendError(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) {
		return err
	}
	return errLost
}

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// Status codes of answers without a body.
const (
	noResponders = "503"
	endOfBatch   = "204"
	notFound     = "404"
)

// status returns the status code of an answer, or "" for a message.
func status(msg *nats.Msg) string {
	if len(msg.Header) == 0 {
		return ""
	}
	if s := msg.Header["Status"]; len(s) > 0 {
		return s[0]
	}
	return ""
}
