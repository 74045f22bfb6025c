//go:build linux || darwin || freebsd || netbsd || openbsd

package link

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"reprise/internal/spawn"
	"reprise/mcp/mcphttp"
)

const (
	// writeQueue is the number of messages that may wait for a process to read them.
	writeQueue = 64
	// stopPatience is the time that a process has to end after its stdin was closed, and again after TERM.
	stopPatience = 2 * time.Second
	// drainPatience limits how long the output of a process is read after its whole tree was killed.
	drainPatience = time.Second
)

// Process is a Link to the stdin and stdout of a process.
type Process struct {
	os      *os.Process
	mark    string
	logger  *slog.Logger
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

// StartProcess starts a command.
func StartProcess(s *spawn.Spawner, c *Command, logger *slog.Logger) (Link, error) {
	env := c.environ(os.Environ())
	path, err := lookPath(c.Args[0], env)
	if err != nil {
		return nil, err
	}
	p := &Process{
		mark: c.Mark, writes: make(chan []byte, writeQueue),
		closing: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}),
	}
	far, err := p.openPipes()
	if err != nil {
		return nil, err
	}
	p.os, err = s.Start(path, c.Args, &os.ProcAttr{
		Dir: c.Dir, Env: env, Files: far[:], Sys: spawn.Session(),
	})
	closeAll(far[:]...)
	if err != nil {
		closeAll(p.stdin, p.stdout, p.stderr)
		return nil, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	p.logger = logger.With("pid", p.os.Pid)
	return p, nil
}

func (p *Process) openPipes() (far [3]*os.File, err error) {
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

// Start implements Link.
func (p *Process) Start(r Receiver) {
	go p.writeLines()
	go p.stopWhenClosed()
	go p.attend(r)
}

// Send implements Link. It returns when the message is queued.
func (p *Process) Send(ctx context.Context, m Message) error {
	line := append(m.Raw[:len(m.Raw):len(m.Raw)], '\n')
	select {
	case <-p.exited: // the writer takes no more
		return ErrEnded
	default:
	}
	select {
	case p.writes <- line:
		return nil
	case <-p.exited:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Agree implements Link. Messages over stdio name no version.
func (p *Process) Agree(string) {}

// Drop implements Link. A process keeps nothing for a request.
func (p *Process) Drop(int64) {}

// Ending implements Link.
func (p *Process) Ending() bool {
	select {
	case <-p.exited:
		return true
	case <-p.closing:
		return true
	default:
		return false
	}
}

// Lost implements Link.
func (p *Process) Lost() bool {
	select {
	case <-p.closing:
		return false
	default:
		return true
	}
}

// Done implements Link.
func (p *Process) Done() <-chan struct{} { return p.ended }

// Err implements Link.
func (p *Process) Err() error { return p.err }

// Close implements Link.
func (p *Process) Close() { p.once.Do(func() { close(p.closing) }) }

// writeLines writes the sent messages until the process is to stop.
func (p *Process) writeLines() {
	defer p.stdin.Close()
	for {
		select {
		case line := <-p.writes:
			if _, err := p.stdin.Write(line); err != nil {
				return // attend sees the end of the process
			}
		case <-p.closing:
			return
		case <-p.exited:
			return
		}
	}
}

// stopWhenClosed ends the process after Close: it closes stdin, then sends TERM, then KILL.
func (p *Process) stopWhenClosed() {
	select {
	case <-p.closing:
	case <-p.exited:
		return
	}
	_ = p.stdin.Close() // ends a blocked write, too
	for _, next := range []func(int, string){terminateTree, func(first int, mark string) { killTree(first, mark) }} {
		select {
		case <-p.exited:
			return
		case <-time.After(stopPatience):
			next(p.os.Pid, p.mark)
		}
	}
}

// attend reads the output of the process and waits until the process and its whole tree have ended.
func (p *Process) attend(r Receiver) {
	var reading sync.WaitGroup
	reading.Go(func() { p.readMessages(r) })
	reading.Go(func() { logStderr(p.stderr, p.logger) })
	first := p.os.Pid
	spawn.AwaitExit(first)
	// As long as it is a zombie no other process can get its number.
	if !killTree(first, p.mark) {
		p.logger.Error("processes of an upstream cannot be killed")
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
	case <-time.After(drainPatience): // a process that cannot be killed holds the other end
		closeAll(p.stdout, p.stderr)
		<-drained
	}
	closeAll(p.stdin, p.stdout, p.stderr)
	p.err = err
	close(p.ended)
}

func (p *Process) readMessages(r Receiver) {
	said := newBoundedLog(p.logger, slog.LevelWarn, "an MCP upstream has written what is no message to its stdout")
	eachLine(p.stdout, MaxMessage, func(line []byte, cut bool) {
		if len(line) == 0 {
			return
		}
		// The line is in a buffer that is used again.
		if cut || !receiveText(bytes.Clone(line), func(m mcphttp.Message) { r.Receive(m, 0) }) {
			r.Garbage()
			said.line(line)
		}
	})
	said.flush()
}

func logStderr(r *os.File, logger *slog.Logger) {
	said := newBoundedLog(logger, slog.LevelInfo, "an MCP upstream has written to its stderr")
	eachLine(r, maxLogged, func(line []byte, _ bool) {
		if len(line) > 0 {
			said.line(line)
		}
	})
	said.flush()
}
