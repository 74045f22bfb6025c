package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reprise/internal/spawn"
	"reprise/mcphttp"
)

const (
	// writeQueue is how many messages wait for a process to read them.
	writeQueue = 64
	// stopPatience is how long a process has to end by itself once its stdin is closed, and again after TERM.
	stopPatience = 2 * time.Second
	// drainPatience is how long what a process has written is still read when all of its tree have been killed.
	drainPatience = time.Second
)

// process is a link to the stdin and stdout of a process.
type process struct {
	os      *os.Process
	mark    string
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	writes  chan []byte
	closing chan struct{}
	once    sync.Once
	exited  chan struct{} // the process has ended; its tree may not have
	ended   chan struct{}
	err     error // how it has ended
}

// startProcess starts the command of u. garbage is called for each line of its stdout that is no message.
func startProcess(s *spawn.Spawner, u *Upstream, mark string, logger *slog.Logger, receive receiver, garbage func()) (link, error) {
	env := environ(os.Environ(), u, mark)
	path, err := lookPath(u.Command[0], env)
	if err != nil {
		return nil, err
	}
	p := &process{
		mark: mark, writes: make(chan []byte, writeQueue),
		closing: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}),
	}
	far, err := p.openPipes()
	if err != nil {
		return nil, err
	}
	p.os, err = s.Start(path, u.Command, &os.ProcAttr{
		Dir: u.Dir, Env: env, Files: far[:],
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	closeAll(far[:]...)
	if err != nil {
		closeAll(p.stdin, p.stdout, p.stderr)
		return nil, fmt.Errorf("start %s: %w", u.Command[0], err)
	}
	logger = logger.With("pid", p.os.Pid)
	go p.write()
	go p.stop()
	go p.attend(logger, receive, garbage)
	return p, nil
}

func (p *process) openPipes() (far [3]*os.File, err error) {
	for i, near := range []**os.File{&p.stdin, &p.stdout, &p.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(far[:]...)
			closeAll(p.stdin, p.stdout, p.stderr)
			return far, err
		}
		if i == 0 {
			r, w = w, r
		}
		*near, far[i] = r, w
	}
	return far, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (p *process) send(ctx context.Context, m outgoing) error {
	line := append(m.raw[:len(m.raw):len(m.raw)], '\n')
	select {
	case <-p.exited: // the writer takes nothing more
		return errEnded
	default:
	}
	select {
	case p.writes <- line:
		return nil
	case <-p.exited:
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *process) agreed(string) {}
func (p *process) drop(*call)    {}

func (p *process) ending() bool {
	select {
	case <-p.exited:
		return true
	case <-p.closing:
		return true
	default:
		return false
	}
}

func (p *process) lost() bool {
	select {
	case <-p.closing:
		return false
	default:
		return true
	}
}

func (p *process) done() <-chan struct{} { return p.ended }
func (p *process) why() error            { return p.err }
func (p *process) close()                { p.once.Do(func() { close(p.closing) }) }

// write writes what is sent until the process is to stop.
func (p *process) write() {
	defer p.stdin.Close()
	for {
		select {
		case line := <-p.writes:
			if _, err := p.stdin.Write(line); err != nil {
				return // it reads no more; that it ends is seen elsewhere
			}
		case <-p.closing:
			return
		case <-p.exited:
			return
		}
	}
}

// stop ends the process when that is asked for: it closes stdin, then sends TERM, then KILL.
func (p *process) stop() {
	select {
	case <-p.closing:
	case <-p.exited:
		return
	}
	_ = p.stdin.Close() // ends a write that is under way, too
	for _, next := range []func(int, string){terminateTree, func(first int, mark string) { killTree(first, mark) }} {
		select {
		case <-p.exited:
			return
		case <-time.After(stopPatience):
			next(p.os.Pid, p.mark)
		}
	}
}

// attend reads what the process writes and waits for its end, and for that of all that it has started.
func (p *process) attend(logger *slog.Logger, receive receiver, garbage func()) {
	var reading sync.WaitGroup
	reading.Go(func() { p.readMessages(logger, receive, garbage) })
	reading.Go(func() { readStderr(p.stderr, logger) })
	first := p.os.Pid
	p.await()
	// While it is a zombie no other process has its number.
	if !killTree(first, p.mark) {
		logger.Error("processes of an upstream cannot be killed")
	}
	state, err := p.os.Wait()
	if err == nil {
		err = fmt.Errorf("the process has ended: %s", state)
	}
	close(p.exited)
	drained := make(chan struct{})
	go func() {
		reading.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(drainPatience): // one that cannot be killed holds the other end
		closeAll(p.stdout, p.stderr)
		<-drained
	}
	closeAll(p.stdin, p.stdout, p.stderr)
	p.err = err
	close(p.ended)
}

// await blocks until the process has ended, and leaves it a zombie.
func (p *process) await() {
	for {
		err := unix.Waitid(unix.P_PID, p.os.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR { //nolint:errorlint // an errno
			return
		}
	}
}

func (p *process) readMessages(logger *slog.Logger, receive receiver, garbage func()) {
	said := newBounded(logger, slog.LevelWarn, "an MCP upstream has written what is no message to its stdout")
	eachLine(p.stdout, maxLine, func(line []byte, cut bool) {
		if len(line) == 0 {
			return
		}
		// The line is in a buffer that is used again.
		if cut || !receiveText(bytes.Clone(line), func(m mcphttp.Message) { receive(m, nil) }) {
			garbage()
			said.line(line)
		}
	})
	said.flush()
}

func readStderr(r *os.File, logger *slog.Logger) {
	said := newBounded(logger, slog.LevelInfo, "an MCP upstream has written to its stderr")
	eachLine(r, maxLogged, func(line []byte, cut bool) {
		if len(line) > 0 {
			said.line(line)
		}
	})
	said.flush()
}
