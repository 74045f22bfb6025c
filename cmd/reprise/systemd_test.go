package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reprise/internal/node"
	"reprise/internal/testserver"
)

// passing starts a server as a service manager does that has a socket for it: as file 3, with variables that name the
// process.
func passing(t *testing.T, dir string, socket *os.File, env []string, args ...string) (*daemon, error) {
	t.Helper()
	program, err := os.Executable()
	check(t, err)
	reprise := filepath.Join(dir, "reprise")
	if err := os.Symlink(program, reprise); !errors.Is(err, os.ErrExist) {
		check(t, err)
	}
	script := `LISTEN_FDS=${FDS-1} LISTEN_PID=$$ exec "$0" "$@"`
	return startProgram(&daemonSpec{
		path: "/bin/sh", args: append([]string{"sh", "-c", script, reprise, "serve"}, args...),
		env: append(os.Environ(), env...), dir: dir, log: filepath.Join(dir, "log"), files: []*os.File{socket},
	})
}

// listening returns a socket that listens, as a file and by its address.
func listening(t *testing.T) (socket *os.File, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	socket, err = listener.(*net.TCPListener).File()
	address = listener.Addr().String()
	check(t, errors.Join(err, listener.Close()))
	t.Cleanup(func() { _ = socket.Close() })
	return socket, address
}

// TestRestartDropsNoConnection: clients that connect all the while are all answered, though the server is stopped and
// started again, because the service manager keeps the socket. No command gets that socket.
func TestRestartDropsNoConnection(t *testing.T) {
	dir := testserver.TempDir(t)
	socket, address := listening(t)
	serve := func() *daemon {
		d, err := passing(t, dir, socket, nil, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:1")
		check(t, err)
		t.Cleanup(func() { _ = d.kill() })
		return d
	}
	d := serve()
	if d.addr != address {
		t.Fatalf("it listens on %s, want %s", d.addr, address)
	}
	var done atomic.Bool
	var answers atomic.Int64
	var clients sync.WaitGroup
	defer clients.Wait()
	defer done.Store(true)
	for range 4 {
		clients.Go(func() {
			web := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			for !done.Load() {
				res, err := web.Get("http://" + address + "/healthz")
				if err != nil {
					t.Errorf("after %d answers: %v", answers.Load(), err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("after %d answers: status %d", answers.Load(), res.StatusCode)
					return
				}
				answers.Add(1)
			}
		})
	}
	more := func() {
		t.Helper()
		want := answers.Load() + 50
		for deadline := time.Now().Add(patience); answers.Load() < want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) || t.Failed() {
				t.Fatalf("%d answers, want %d", answers.Load(), want)
			}
		}
	}
	for range 3 {
		more()
		check(t, d.signal(unix.SIGTERM))
		if d.err != nil {
			t.Fatalf("the server ended with %v", d.err)
		}
		d = serve()
	}
	more()
	done.Store(true)
	clients.Wait()
	commandHasNoSocket(t, dir, address)
}

// commandHasNoSocket runs a command that lists its files and variables.
func commandHasNoSocket(t *testing.T, dir, address string) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(dir, "data", "token"))
	check(t, err)
	program, err := os.Executable()
	check(t, err)
	out, err := (&exec.Cmd{
		Path: program, Args: []string{"reprise", "run", "--", "sh", "-c", "ls -l /proc/self/fd; env"},
		Env: append(os.Environ(), "REPRISE_URL=http://"+address, "REPRISE_TOKEN="+strings.TrimSpace(string(token))),
	}).CombinedOutput()
	if err != nil || strings.Contains(string(out), "socket:") || strings.Contains(string(out), "LISTEN_") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestPassedSocketIsRefused: what is no TCP socket that listens is told.
func TestPassedSocketIsRefused(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	file, err := os.Create(filepath.Join(dir, "file"))
	check(t, err)
	defer file.Close()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	check(t, err)
	defer listener.Close()
	local, err := listener.File()
	check(t, err)
	defer local.Close()
	tcp, _ := listening(t)
	for want, given := range map[string]struct {
		socket *os.File
		env    string
	}{
		"file 3 is no socket that listens": {file, "FDS=1"},
		"it has to be a TCP socket":        {local, "FDS=1"},
		"is to pass one socket":            {tcp, "FDS=2"},
		"WATCHDOG_USEC=soon":               {tcp, "WATCHDOG_USEC=soon"},
	} {
		d, err := passing(t, dir, given.socket, []string{given.env}, "--data", filepath.Join(dir, "data"))
		if err == nil {
			_ = d.kill()
		}
		said, logErr := os.ReadFile(log)
		check(t, errors.Join(logErr, os.Remove(log)))
		if err == nil || !strings.Contains(string(said), want) {
			t.Errorf("%v, %q, want %q", err, said, want)
		}
	}
}

// TestWatchdogIsFed: the service manager hears of the server within each period, until it stops.
func TestWatchdogIsFed(t *testing.T) {
	dir := t.TempDir()
	manager := newServiceManager(t, dir)
	d, err := startDaemon(append(os.Environ(), manager.env, "WATCHDOG_USEC=50000"), dir, filepath.Join(dir, "log"),
		"--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	check(t, err)
	t.Cleanup(func() { _ = d.kill() })
	if got := manager.told(); got != "READY=1" {
		t.Errorf("told %q at the start", got)
	}
	for range 5 {
		if got := manager.told(); got != "WATCHDOG=1" {
			t.Errorf("told %q, want WATCHDOG=1", got)
		}
	}
	check(t, d.cmd.Process.Signal(os.Interrupt))
	for got := manager.told(); got != "STOPPING=1"; got = manager.told() {
		if got != "WATCHDOG=1" {
			t.Fatalf("told %q", got)
		}
	}
}

// TestWatchdogStarves: a server that is not healthy does not say that it is.
func TestWatchdogStarves(t *testing.T) {
	dir := t.TempDir()
	manager := newServiceManager(t, dir)
	name, value, _ := strings.Cut(manager.env, "=")
	t.Setenv(name, value)
	asked := make(chan bool)
	sick := func(context.Context) error {
		asked <- true
		return errors.New("sick")
	}
	stop := node.FeedWatchdog(slog.New(slog.DiscardHandler), time.Millisecond, sick)
	for range 3 {
		<-asked
	}
	go func() {
		for range asked { // those that are under way
		}
	}()
	stop()
	close(asked)
	node.NotifySystemd(slog.New(slog.DiscardHandler), "LAST=1")
	if got := manager.told(); got != "LAST=1" {
		t.Errorf("told %q of a server that is not healthy", got)
	}
}
