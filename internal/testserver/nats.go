package testserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reprise/internal/freeport"
)

// NATSOptions are the settings of a NATS server. The zero value of each field means its default.
type NATSOptions struct {
	// Config has additional lines of nats-server's configuration file, such as "max_payload: 256KB".
	Config string
	// JetStream has additional lines of the section jetstream, such as "max_file_store: 8MB". By default the section
	// contains only the data folder.
	JetStream string
	// User and Password, if User is not "", are required from every client.
	User, Password string
	// TLS makes the server accept only TLS, with a certificate for "localhost" and 127.0.0.1 that NATSServer.CAFile has
	// signed.
	TLS bool
}

// NATSServer is a NATS server with JetStream. Its methods are not safe for concurrent use.
type NATSServer struct {
	opts    NATSOptions
	name    string
	dir     string
	port    int
	cluster string // lines of the section cluster, "" for a server that is alone
	cmd     *exec.Cmd
	stdin   *os.File
	done    chan struct{} // closed when the process has ended
}

// NATS starts a server that ends with the test. It needs the go command to build the server. If that is missing, the
// test is skipped, or fails if CI is set.
func NATS(tb testing.TB, opts *NATSOptions) *NATSServer {
	tb.Helper()
	s, err := StartNATS(opts)
	started(tb, s, err)
	return s
}

// StartNATS starts a server outside of a test, for example in TestMain. The caller must call Stop. The error is
// ErrMissing if there is no go command.
func StartNATS(opts *NATSOptions) (*NATSServer, error) {
	s, err := newNATS(opts, "alone")
	if err != nil {
		return nil, err
	}
	// Another process may take the port before the start: then another port is tried.
	for range 5 {
		if s.port, err = freeport.Find(0); err != nil {
			break
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, s.Stop())
}

func newNATS(opts *NATSOptions, name string) (*NATSServer, error) {
	s := &NATSServer{name: name}
	if opts != nil {
		s.opts = *opts
	}
	if _, err := natsBinary(); err != nil {
		return nil, err
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "nats-"); err != nil {
		return nil, err
	}
	if s.opts.TLS {
		if err := makeCertificate(s.dir); err != nil {
			return nil, errors.Join(err, s.Stop())
		}
	}
	return s, nil
}

// natsBinary builds the server, once per process. The file is unlinked and started through its open descriptor, so that
// nothing is left behind.
var natsBinary = sync.OnceValues(func() (*os.File, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("%w: no go command to build the NATS server with", ErrMissing)
	}
	_, here, _, _ := runtime.Caller(0)
	dir, err := os.MkdirTemp("", "natsd-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "natsd")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = filepath.Join(filepath.Dir(here), "natsd")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build in %s: %w\n%s", build.Dir, err, out)
	}
	return os.Open(path)
})

// Addr is the address of the server, such as "127.0.0.1:4222".
func (s *NATSServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the URL of the server, with its user and password.
func (s *NATSServer) URL() string {
	scheme, login := "nats", ""
	if s.opts.TLS {
		scheme = "tls"
	}
	if s.opts.User != "" {
		login = s.opts.User + ":" + s.opts.Password + "@"
	}
	return scheme + "://" + login + s.Addr()
}

// CAFile returns the path of the authority's certificate, in PEM; see NATSOptions.TLS.
func (s *NATSServer) CAFile() string { return filepath.Join(s.dir, "ca.pem") }

// Dir is the folder with the data of the server.
func (s *NATSServer) Dir() string { return filepath.Join(s.dir, "data") }

func (s *NATSServer) logFile() string { return filepath.Join(s.dir, "log") }

// Start starts the server, again after Kill, at the same port and with its remaining data. It returns when the server
// answers; a server of a cluster may still have to find the others.
func (s *NATSServer) Start() error {
	if s.cmd != nil {
		return errors.New("the server is running")
	}
	binary, err := natsBinary()
	if err != nil {
		return err
	}
	config := filepath.Join(s.dir, "nats.conf")
	if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", binary.Fd()), config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, log, log
	cmd.SysProcAttr = inGroup(nil)
	if err := cmd.Start(); err != nil {
		return errors.Join(err, out.Close())
	}
	s.cmd, s.stdin, s.done = cmd, out, make(chan struct{})
	done := s.done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return s.awaitReady()
}

func (s *NATSServer) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %s\nlisten: %q\n", s.name, s.Addr())
	fmt.Fprintf(&b, "jetstream {\n  store_dir: %q\n%s\n}\n", s.Dir(), s.opts.JetStream)
	if s.opts.User != "" {
		fmt.Fprintf(&b, "authorization { user: %q, password: %q }\n", s.opts.User, s.opts.Password)
	}
	if s.opts.TLS {
		fmt.Fprintf(&b, "tls { cert_file: %q, key_file: %q, ca_file: %q, timeout: 5 }\n",
			filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem"), s.CAFile())
	}
	if s.cluster != "" {
		fmt.Fprintf(&b, "cluster {\n%s\n}\n", s.cluster)
	}
	b.WriteString(s.opts.Config + "\n")
	return b.String()
}

// awaitReady waits until the server greets a connection.
func (s *NATSServer) awaitReady() error {
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-s.done:
			text, _ := os.ReadFile(s.logFile())
			return errors.Join(fmt.Errorf("the NATS server has ended: %s", text), s.Kill())
		case <-time.After(5 * time.Millisecond):
		}
		if s.greets() {
			return nil
		}
	}
	text, _ := os.ReadFile(s.logFile())
	return errors.Join(fmt.Errorf("the NATS server does not answer within %v: %s", patience, text), s.Kill())
}

func (s *NATSServer) greets() bool {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	var greeting [4]byte
	n, err := conn.Read(greeting[:])
	return err == nil && string(greeting[:n]) == "INFO"
}

// Kill ends the server with SIGKILL if it runs. Its data is kept for Start.
func (s *NATSServer) Kill() error {
	if s.cmd == nil {
		return nil
	}
	err := s.signal(syscall.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-s.done
	s.cmd = nil
	return errors.Join(err, s.stdin.Close())
}

// Terminate ends the server with SIGTERM, as an operator does: it shuts JetStream down before it closes connections.
// Its data is kept for Start.
func (s *NATSServer) Terminate() error {
	if err := s.signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-s.done
	s.cmd = nil
	return s.stdin.Close()
}

// Pause stops the server with SIGSTOP: connections stay open and unanswered. It returns when all threads have stopped.
func (s *NATSServer) Pause() error {
	if err := s.signal(signalPause); err != nil {
		return err
	}
	for range 1000 {
		if s.stopped() {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("the server does not stop")
}

// stopped reports whether all threads have; see proc_pid_stat(5).
func (s *NATSServer) stopped() bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		if err == nil && !strings.Contains(string(stat), ") T ") {
			return false
		}
	}
	return true
}

// Resume continues the server after Pause.
func (s *NATSServer) Resume() error { return s.signal(signalResume) }

func (s *NATSServer) signal(sig syscall.Signal) error {
	if s.cmd == nil {
		return errors.New("the server does not run")
	}
	return s.cmd.Process.Signal(sig)
}

// Stop ends the server and removes its folder. Stopping again does nothing.
func (s *NATSServer) Stop() error {
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}

// NATSCluster starts n servers as one cluster, which ends with the test. When it returns, the first one answers; the
// caller waits for a leader if necessary.
func NATSCluster(tb testing.TB, n int, opts *NATSOptions) []*NATSServer {
	tb.Helper()
	servers := make([]*NATSServer, n)
	routes := make([]string, n)
	for i := range servers {
		s, err := newNATS(opts, fmt.Sprint("node-", i))
		failOrSkip(tb, err)
		tb.Cleanup(func() {
			if err := s.Stop(); err != nil {
				tb.Error(err)
			}
		})
		var route int
		if s.port, err = freeport.Find(0); err == nil {
			route, err = freeport.Find(0)
		}
		failOrSkip(tb, err)
		servers[i], routes[i] = s, fmt.Sprintf("nats://127.0.0.1:%d", route)
	}
	for i, s := range servers {
		s.cluster = fmt.Sprintf("  name: test\n  listen: %q\n  routes: [\"%s\"]",
			strings.TrimPrefix(routes[i], "nats://"), strings.Join(routes, `", "`))
		failOrSkip(tb, s.Start())
	}
	return servers
}

// Name is the name of the server in its cluster.
func (s *NATSServer) Name() string { return s.name }
