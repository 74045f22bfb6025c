//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// replica is a process of reprise serve that is always restarted at the same address.
type replica struct {
	binary, dir, addr string
	flags             []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

// startWithin bounds the time until a server listens. It waits for its store after that.
const startWithin = 60 * time.Second

func (r *replica) start() error {
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{
		"serve", "--listen", r.addr, "--data", filepath.Join(r.dir, "data"), "--log-level", "warn",
	}, r.flags...)
	cmd := exec.Command(r.binary, args...)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	listening, started, done := make(chan string, 1), make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel sends the signal above when this thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if addr, ok := strings.CutPrefix(lines.Text(), "listening on http://"); ok {
				listening <- addr
			}
		}
		_ = cmd.Wait()
		close(done)
	}()
	if err := <-started; err != nil {
		return err
	}
	r.mu.Lock()
	r.cmd, r.done = cmd, done
	r.mu.Unlock()
	select {
	case r.addr = <-listening:
		return nil
	case <-done:
		return fmt.Errorf("the server has ended: %s", r.log())
	case <-time.After(startWithin):
		return errors.Join(fmt.Errorf("the server does not listen: %s", r.log()), r.end(syscall.SIGKILL))
	}
}

// log returns the last output of the server.
func (r *replica) log() string {
	text, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

func (r *replica) signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return nil
	}
	err := r.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// end sends a signal and waits for the process to end, with SIGKILL if it takes too long.
func (r *replica) end(sig syscall.Signal) error {
	if r.done == nil {
		return nil
	}
	err := r.signal(sig)
	select {
	case <-r.done:
	case <-time.After(startWithin):
		err = errors.Join(err, errors.New("the server does not end"), r.signal(syscall.SIGKILL))
		<-r.done
	}
	return err
}
