package testserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postgresPatience is how long the server may take to start or to end.
const postgresPatience = 2 * time.Minute

// URL returns the URL of the database, with the password if there is one.
func (s *PostgresServer) URL() string {
	u := url.URL{Scheme: "postgres", Host: s.Addr(), Path: "/reprise", User: url.User("reprise")}
	if s.opts.Password != "" {
		u.User = url.UserPassword("reprise", s.opts.Password)
	}
	if !s.opts.TLS {
		u.RawQuery = "sslmode=disable"
	}
	return u.String()
}

// Addr returns the host and port of the server.
func (s *PostgresServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Start starts the server again, on the same port and with the same data, and waits until it answers.
func (s *PostgresServer) Start() error {
	deadline := time.Now().Add(postgresPatience)
	for {
		err := s.start(deadline)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		// Processes of the one that was killed may still be there for a moment.
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *PostgresServer) start(deadline time.Time) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, err := s.command("postgres", "-D", s.data())
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if s.done, err = startTied(cmd); err != nil {
		return err
	}
	s.cmd = cmd
	for time.Now().Before(deadline) {
		select {
		case <-s.done:
			text, err := os.ReadFile(filepath.Join(s.dir, "log"))
			return errors.Join(fmt.Errorf("PostgreSQL has ended: %s", text), err)
		case <-time.After(10 * time.Millisecond):
		}
		if !s.ready() {
			continue
		}
		if err := s.makeDatabase(); err != nil {
			return errors.Join(err, s.Kill())
		}
		return nil
	}
	return errors.Join(fmt.Errorf("PostgreSQL did not answer for %v", postgresPatience), s.Kill())
}

// startTied starts a process that the system kills when this one ends, however that comes about. The
// channel is closed when the process has ended.
func startTied(cmd *exec.Cmd) (done chan struct{}, err error) {
	EndWithParent(cmd.SysProcAttr)
	done = make(chan struct{})
	started := make(chan error)
	go func() {
		// The signal comes when the thread ends that has started the process: so that it stays, it waits.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return done, <-started
}

// ready reports whether the server takes connections: the last line of the file of its
// pid says so, see src/include/utils/pidfile.h of PostgreSQL.
func (s *PostgresServer) ready() bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) > 7 && lines[0] == strconv.Itoa(s.cmd.Process.Pid) &&
		strings.TrimSpace(lines[7]) == "ready"
}

// makeDatabase makes the database if it is not there yet, through the socket of the server.
func (s *PostgresServer) makeDatabase() error {
	mark := filepath.Join(s.dir, "made")
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	cmd, err := s.command("createdb", "-h", s.dir, "-p", strconv.Itoa(s.port), "-U", "reprise", "reprise")
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, "PGPASSWORD="+s.opts.Password)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("createdb: %w: %s", err, out)
	}
	return os.WriteFile(mark, nil, 0o600)
}

// Kill ends all processes of the server with SIGKILL and waits until they have gone.
func (s *PostgresServer) Kill() error { return s.end(syscall.SIGKILL) }

// Stop ends the server and removes its data. Stopping again does nothing.
func (s *PostgresServer) Stop() error {
	err := s.end(syscall.SIGKILL)
	return errors.Join(err, removeAll(s.dir))
}

// Quit ends the server as a restart by an operator does: connections are cut, and committed data is on the disk.
func (s *PostgresServer) Quit() error { return s.end(syscall.SIGINT) }

func (s *PostgresServer) end(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	var err error
	all := s.processes()
	if sig == syscall.SIGKILL {
		err = signalAll(all, sig)
	} else {
		err = s.cmd.Process.Signal(sig)
	}
	<-s.done
	s.cmd = nil
	deadline := time.Now().Add(postgresPatience)
	for _, pid := range all[1:] {
		for alive(pid) {
			if time.Now().After(deadline) {
				return errors.Join(err, fmt.Errorf("process %d of PostgreSQL has not ended", pid))
			}
			time.Sleep(time.Millisecond)
		}
	}
	return err
}

// Backup ends the server, copies its data and starts it again.
func (s *PostgresServer) Backup() error {
	if err := s.Quit(); err != nil {
		return err
	}
	backup := filepath.Join(s.dir, "backup")
	if err := os.RemoveAll(backup); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", s.data(), backup).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return s.Start()
}

// Recover kills the server and starts it with the data of the last Backup, like a standby that is promoted: on a new
// timeline.
func (s *PostgresServer) Recover() error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(s.dir, "backup"), s.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	if err := s.write("data/recovery.signal", "", 0o600); err != nil {
		return err
	}
	return s.Start()
}

// Pause stops all processes of the server until Resume.
func (s *PostgresServer) Pause() error { return signalAll(s.processes(), signalPause) }

// Resume continues them.
func (s *PostgresServer) Resume() error { return signalAll(s.processes(), signalResume) }

// processes are the processes of the server, the one that starts all others first. The others are in process
// groups of their own, so they are found as its children.
func (s *PostgresServer) processes() []int {
	parent := s.cmd.Process.Pid
	all := []int{parent}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if errors.Is(err, fs.ErrNotExist) {
		return all
	}
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// signalAll sends the parent's first, so that it starts no further children meanwhile.
func signalAll(pids []int, sig syscall.Signal) error {
	var errs []error
	for _, pid := range slices.Clone(pids) {
		if err := signalProcess(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// alive reports whether there is a process that is more than a zombie nobody has waited for.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(after, "Z")
}
