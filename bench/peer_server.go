package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// peerServer is a server of another project, with a directory of its own on the disk.
type peerServer struct {
	cmd    *exec.Cmd
	addr   string
	remove func() error
}

// startPeer starts a server on a free port of loopback. configure writes its configuration into dir, and returns the
// arguments of the program.
func startPeer(
	ctx context.Context, program string, configure func(dir, addr string) ([]string, error),
) (*peerServer, error) {
	path, err := findPeer(program)
	if err != nil {
		return nil, err
	}
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	p := &peerServer{remove: remove}
	if err := p.start(ctx, path, dir, configure); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", program, err), remove())
	}
	return p, nil
}

func (p *peerServer) start(
	ctx context.Context, path, dir string, configure func(dir, addr string) ([]string, error),
) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.addr = l.Addr().String()
	_ = l.Close() // for the server
	args, err := configure(dir, p.addr)
	if err != nil {
		return err
	}
	p.cmd = exec.CommandContext(ctx, path, args...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = peerGrace
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return err
	}
	defer output.Close()
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if err := p.awaitPort(ctx); err != nil {
		said, _ := os.ReadFile(output.Name())
		return errors.Join(fmt.Errorf("%w: it says %q", err, said), p.stop())
	}
	return nil
}

// awaitPort waits until the server listens.
func (p *peerServer) awaitPort(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errHangs)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *peerServer) cpu() (time.Duration, error) { return cpuTimeOf(p.cmd.Process.Pid) }

// peerGrace is how long a server may take to end before it is killed.
const peerGrace = 10 * time.Second

func (p *peerServer) stop() error { return endServer(p.cmd, peerGrace) }

// endServer ends a server, and kills it if it has not ended within the grace.
func endServer(cmd *exec.Cmd, grace time.Duration) error {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(grace, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	var exit *exec.ExitError // of the signal
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// Close ends the server and removes its directory.
func (p *peerServer) Close() error { return errors.Join(p.stop(), p.remove()) }
