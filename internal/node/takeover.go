//go:build unix

package node

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reprise/internal/datadir"
	"reprise/internal/durable"
)

// A server gives the socket that it listens on to the next one with the same data directory, which asks for it at a
// Unix socket in the directory: the secret of the directory, a line break; the answer is a byte with the descriptor; a
// byte says that it has arrived. Then the old server stops, and the new one waits for the directory. What connects in
// between waits in the queue of the socket, which is never closed.

const (
	// askPatience bounds each exchange, and stopPatience the wait until the old server has stopped.
	askPatience  = 10 * time.Second
	stopPatience = time.Minute
)

// errTakenOver is the reason for which a server stops that has handed over its socket.
var errTakenOver = errors.New("another server takes over")

// handover waits for the server that takes over.
type handover struct {
	dir      *os.File
	listener net.Listener
	secret   string
	given    *net.TCPListener
	taken    func() // called once the socket was handed over
	logger   *slog.Logger
	serving  sync.WaitGroup
}

// openHandover offers the socket in the data directory. taken is called when another server has received it.
func openHandover(dir *datadir.Dir, given *net.TCPListener, logger *slog.Logger, taken func()) (
	h *handover, err error,
) {
	h = &handover{given: given, taken: taken, logger: logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
			h = nil
		}
	}()
	if h.secret, err = durable.Secret(filepath.Join(dir.Path, datadir.TakeOverSecretFile)); err != nil {
		return h, err
	}
	if h.dir, err = os.Open(dir.Path); err != nil {
		return h, err
	}
	if h.listener, err = listenIn(h.dir, datadir.TakeOverFile); err != nil {
		return h, err
	}
	h.serving.Go(h.serve)
	return h, nil
}

// serve answers one caller after the other until the socket was handed over or the listener is closed.
func (h *handover) serve() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		err = h.give(conn.(*net.UnixConn))
		_ = conn.Close()
		if err == nil {
			h.taken()
			return
		}
		h.logger.Warn("the socket was not given to another server", "reason", err)
	}
}

// give hands the socket over to a caller that knows the secret. It returns nil when the other process has it.
func (h *handover) give(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(askPatience)); err != nil {
		return err
	}
	in := bufio.NewReaderSize(conn, 128)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(line[:len(line)-1], []byte(h.secret)) != 1 {
		return errors.New("it does not know the secret in the data directory")
	}
	raw, err := h.given.SyscallConn()
	if err != nil {
		return err
	}
	// The descriptor is used in place: File would make the socket block for both processes.
	var sendErr error
	err = raw.Control(func(fd uintptr) {
		_, _, sendErr = conn.WriteMsgUnix([]byte{1}, unix.UnixRights(int(fd)), nil)
	})
	if err = errors.Join(err, sendErr); err != nil {
		return err
	}
	_, err = in.ReadByte()
	return err
}

// close withdraws the offer. It does nothing on a nil or closed handover.
func (h *handover) close() error {
	if h == nil {
		return nil
	}
	var errs []error
	if h.listener != nil {
		if err := h.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
		h.serving.Wait()
	}
	if h.dir != nil {
		if err := h.dir.Close(); !errors.Is(err, fs.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// takeOver asks the server that holds a data directory for its socket. It returns nil if no server holds the directory.
// If check refuses the address, the socket is not taken and that server continues.
func takeOver(ctx context.Context, path string, check func(address string) error) (net.Listener, error) {
	dir, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", within(dir, datadir.TakeOverFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nil // no server, or a killed one
	}
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	defer conn.Close()
	listener, err := receive(conn.(*net.UnixConn), filepath.Join(path, datadir.TakeOverSecretFile), check)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	return listener, nil
}

// receive is the counterpart of give.
func receive(conn *net.UnixConn, secretPath string, check func(address string) error) (net.Listener, error) {
	if err := conn.SetDeadline(time.Now().Add(askPatience)); err != nil {
		return nil, err
	}
	secret, err := durable.ReadSecret(secretPath)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(secret + "\n")); err != nil {
		return nil, err
	}
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), space)
	if err != nil {
		return nil, fmt.Errorf("the server does not hand over its socket: %w", err)
	}
	listener, err := listenerIn(space[:n])
	if err != nil {
		return nil, err
	}
	if err = check(listener.Addr().String()); err == nil {
		_, err = conn.Write([]byte{1})
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// listenerIn returns the socket in a message.
func listenerIn(rights []byte) (net.Listener, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("no socket came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("no socket came"), err)
	}
	file := os.NewFile(uintptr(fds[0]), datadir.TakeOverFile)
	defer file.Close()
	return net.FileListener(file)
}

// awaitHolder is datadir.Lock, but waits until the previous server has stopped.
func awaitHolder(ctx context.Context, path string) (*datadir.Dir, error) {
	deadline := time.Now().Add(stopPatience)
	for {
		dir, err := datadir.Lock(path)
		if err == nil || !errors.Is(err, datadir.ErrInUse) || time.Now().After(deadline) {
			return dir, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Offer offers the socket to a server that takes over. The returned context is also done when one has taken it. A
// server that cannot offer its socket, for example because the path of its directory is too long, continues without.
func (n *Node) Offer(please context.Context) context.Context {
	please, stop := context.WithCancelCause(please)
	var err error
	n.handover, err = openHandover(n.dir, n.front.socket.TCPListener, n.Logger, func() { stop(errTakenOver) })
	if err != nil {
		n.Logger.Warn("no other server can take over from this one", "reason", err)
	}
	return please
}

// isTakenOver reports whether a server stops because another one has taken its socket.
func isTakenOver(please context.Context) bool { return errors.Is(context.Cause(please), errTakenOver) }

// take locks the data directory and, with Options.TakeOver, takes over the socket of its server.
func take(ctx context.Context, o *Options) (*datadir.Dir, net.Listener, error) {
	var listener net.Listener
	if o.TakeOver {
		var err error
		if listener, err = takeOver(ctx, o.Data, o.CheckAddress); err != nil {
			return nil, nil, err
		}
	}
	if listener == nil { // there is nothing to take over
		dir, err := datadir.Lock(o.Data)
		return dir, nil, err
	}
	dir, err := awaitHolder(ctx, o.Data)
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	return dir, listener, nil
}
