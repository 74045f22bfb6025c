package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"reprise/internal/freeport"
)

// RedisOptions are the settings of a Redis server. The zero value of each field means its default.
type RedisOptions struct {
	// Config has additional arguments for redis-server, such as "--maxmemory", "8mb". They follow the default ones: an
	// append-only file that is synced with each write, and no snapshots.
	Config []string
	// Password, if not "", is required from every client.
	Password string
	// TLS makes the server accept only TLS, with a certificate for "localhost" and 127.0.0.1 that RedisServer.CAFile
	// has signed.
	TLS bool
	// Sentinel, if not empty, makes the server a Sentinel with this configuration, line by line.
	Sentinel []string
	// Cluster makes the server a node of a Redis Cluster, at first the only one; see RedisCluster.
	Cluster bool
}

// RedisServer is a Redis server. Its methods are not safe for concurrent use.
type RedisServer struct {
	opts RedisOptions
	dir  string
	port int
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Redis starts a server that ends with the test. If Redis is not installed, the test is skipped, or fails if CI is set.
func Redis(tb testing.TB, opts *RedisOptions) *RedisServer {
	tb.Helper()
	s, err := StartRedis(opts)
	started(tb, s, err)
	return s
}

// StartRedis starts a server outside of a test, for example in TestMain. The caller must call Stop. The error is
// ErrMissing if Redis is not installed.
func StartRedis(opts *RedisOptions) (*RedisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("%w: redis-server", ErrMissing)
	}
	s := &RedisServer{}
	if opts != nil {
		s.opts = *opts
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "redis-"); err != nil {
		return nil, err
	}
	if s.opts.TLS {
		err = makeCertificate(s.dir)
	}
	if len(s.opts.Sentinel) > 0 { // it writes down there what it finds out
		err = os.WriteFile(s.sentinelFile(), []byte(strings.Join(s.opts.Sentinel, "\n")+"\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	// Another process may take the port before the start: then another port is tried.
	for range 5 {
		if s.port, err = s.freePort(); err != nil {
			break
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, s.Stop())
}

// clusterBusOffset is how far above its port a node of a cluster listens for the others.
const clusterBusOffset = 10_000

// freePort finds a port that no program listens at now, and for a node of a cluster one whose bus is free too.
func (s *RedisServer) freePort() (int, error) {
	if s.opts.Cluster {
		return freeport.Find(clusterBusOffset)
	}
	return freeport.Find(0)
}

// Addr is the address of the server, such as "127.0.0.1:7000".
func (s *RedisServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the URL of the server, with its password.
func (s *RedisServer) URL() string {
	scheme, login := "redis", ""
	if s.opts.TLS {
		scheme = "rediss"
	}
	if s.opts.Password != "" {
		login = ":" + s.opts.Password + "@"
	}
	return scheme + "://" + login + s.Addr()
}

// CAFile returns the path of the authority's certificate, in PEM; see RedisOptions.TLS.
func (s *RedisServer) CAFile() string { return filepath.Join(s.dir, "ca.pem") }

// Dir is the folder with the data of the server.
func (s *RedisServer) Dir() string { return filepath.Join(s.dir, "data") }

// Start starts the server, again after Kill, at the same port and with its remaining data. It returns when the server
// answers.
func (s *RedisServer) Start() error {
	if s.cmd != nil {
		return errors.New("the server is running")
	}
	if err := os.MkdirAll(s.Dir(), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command("redis-server", s.args()...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// It ends with this process, even where that panics. The signal comes when the thread ends that has started it,
	// so that one stays for as long.
	s.cmd.SysProcAttr = inGroup(nil)
	EndWithParent(s.cmd.SysProcAttr)
	cmd, started, done := s.cmd, make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(done)
		}
	}()
	if err := <-started; err != nil {
		s.cmd = nil
		return err
	}
	s.done = done
	return s.awaitReady()
}

func (s *RedisServer) args() []string {
	port := strconv.Itoa(s.port)
	if len(s.opts.Sentinel) > 0 {
		return []string{s.sentinelFile(), "--sentinel", "--bind", "127.0.0.1", "--port", port}
	}
	args := []string{
		"--bind", "127.0.0.1", "--dir", s.Dir(), "--save", "", "--appendonly", "yes", "--appendfsync", "always",
		"--daemonize", "no", "--repl-diskless-sync-delay", "0",
	}
	if s.opts.TLS {
		args = append(args, "--port", "0", "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file",
			s.CAFile(),
			"--tls-cert-file", filepath.Join(s.dir, "cert.pem"), "--tls-key-file", filepath.Join(s.dir, "key.pem"))
	} else {
		args = append(args, "--port", port)
	}
	if s.opts.Password != "" {
		args = append(args, "--requirepass", s.opts.Password, "--masterauth", s.opts.Password)
	}
	if s.opts.Cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
	}
	return append(args, s.opts.Config...)
}

// readyWithin is how long a server may take to answer.
const readyWithin = 2 * time.Minute

// awaitReady asks the server until it answers, and ends it if it does not.
func (s *RedisServer) awaitReady() error {
	deadline := time.After(readyWithin)
	for {
		reply, err := s.Command("PING")
		if err == nil && strings.Contains(reply, "PONG") {
			return nil
		}
		select {
		case <-s.done:
			s.cmd = nil
			return fmt.Errorf("redis-server has ended: %s", s.log())
		case <-deadline:
			return errors.Join(fmt.Errorf("redis-server does not answer: %w: %s", err, s.log()), s.Kill())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *RedisServer) sentinelFile() string { return filepath.Join(s.dir, "sentinel.conf") }

func (s *RedisServer) logFile() string { return filepath.Join(s.dir, "log") }

// log is what the server has last said.
func (s *RedisServer) log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// Command sends a command with redis-cli and returns what that prints.
func (s *RedisServer) Command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	cli := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-e"}
	if s.opts.TLS {
		cli = append(cli, "--tls", "--cacert", s.CAFile())
	}
	cmd := exec.CommandContext(ctx, "redis-cli", append(cli, args...)...)
	cmd.Env = os.Environ()
	if s.opts.Password != "" {
		cmd.Env = append(cmd.Env, "REDISCLI_AUTH="+s.opts.Password)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redis-cli %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Kill ends the server with SIGKILL, as a crash would, and a process that it has forked to rewrite its file.
func (s *RedisServer) Kill() error {
	if s.cmd == nil {
		return nil
	}
	var err error
	select {
	case <-s.done: // its pid may belong to another process by now
	default:
		err = killGroup(s.cmd.Process.Pid)
		<-s.done
	}
	s.cmd = nil
	return err
}

// Pause stops the server with SIGSTOP: its connections stay, and it does not answer.
func (s *RedisServer) Pause() error { return s.cmd.Process.Signal(signalPause) }

// Resume is the inverse of Pause.
func (s *RedisServer) Resume() error { return s.cmd.Process.Signal(signalResume) }

// Stop ends the server and removes its data.
func (s *RedisServer) Stop() error { return errors.Join(s.Kill(), removeAll(s.dir)) }
