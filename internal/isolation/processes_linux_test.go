//go:build amd64 || arm64

package isolation

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestProcessTable: a command sees its own processes alone, in a /proc of its own, and no first process that it could
// read, signal or use.
func TestProcessTable(t *testing.T) {
	p := resolve(t, Config{}, Bubblewrap, Access{})
	for command, want := range map[string]string{
		`echo $$ $PPID; sh -c 'echo $$ $PPID'; true`:                     "2 0\n3 2",
		`cd /proc && echo [0-9]*`:                                        "1 2",
		`cat /proc/1/environ /proc/1/maps /proc/1/mem`:                   "",
		`ls /proc/1/root /proc/1/cwd; readlink /proc/1/fd/* /proc/1/exe`: "",
		`/proc/1/exe || echo no`:                                         "no",
		`kill -KILL 1; kill -STOP 1; kill -KILL -1; echo here`:           "here",
		`umount /proc; mount -t proc proc /proc; echo /proc/[0-9]*`:      "/proc/1 /proc/2",
		`awk '/^NoNewPrivs|^CapBnd/ { print $2 }' /proc/self/status`:     "0000000000000000\n1",
	} {
		if out, _ := shell(t, p, "/", "{ "+command+"; } 2>/dev/null"); out != want {
			t.Errorf("%s: %q, want %q", command, out, want)
		}
	}
}

// TestEndIsReportedAsItWas: the end of a command at each level is what the kernel reports of a child of ours.
func TestEndIsReportedAsItWas(t *testing.T) {
	for _, level := range Levels() {
		p := resolve(t, Config{}, level, Access{})
		for command, want := range map[string]syscall.WaitStatus{
			"exit 0":        0,
			"exit 3":        3 << 8,
			"exit 255":      255 << 8,
			"kill -TERM $$": syscall.WaitStatus(unix.SIGTERM),
			"kill -KILL $$": syscall.WaitStatus(unix.SIGKILL),
			"kill -HUP $$":  syscall.WaitStatus(unix.SIGHUP),
		} {
			process, _ := start(t, p, "/", command)
			state, err := process.Wait()
			must(t, err)
			if got := state.Sys().(syscall.WaitStatus); got != want {
				t.Errorf("%s at %s: status %#x, want %#x", command, level, got, want)
			}
		}
		for path, want := range map[string]error{"/no-such-program": fs.ErrNotExist, "/etc/passwd": fs.ErrPermission} {
			_, err := p.Start(path, []string{path}, &os.ProcAttr{Dir: "/", Env: []string{}})
			if _, ok := errors.AsType[*os.PathError](err); !ok || !errors.Is(err, want) {
				t.Errorf("%s at %s: %v, want %v", path, level, err, want)
			}
		}
	}
}

// TestSignalsReachGroup: a signal of ours to the process group of a command reaches the processes in it.
func TestSignalsReachGroup(t *testing.T) {
	for _, level := range Levels() {
		p := resolve(t, Config{}, level, Access{})
		process, r := start(t, p, "/", `trap 'wait; exit 7' TERM; (trap 'echo too; exit' TERM; echo up; while :; do :; done) &
			while :; do wait; done`)
		must(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
		up := make([]byte, 3)
		_, err := io.ReadFull(r, up)
		must(t, err)
		must(t, unix.Kill(-process.Pid, unix.SIGTERM))
		text, err := io.ReadAll(r)
		state, waitErr := process.Wait()
		if must(t, errors.Join(err, waitErr)); state.ExitCode() != 7 || !strings.Contains(string(text), "too") {
			t.Errorf("%s: %v, %q", level, state, text)
		}
	}
}

// TestOrphansAreReaped: no zombie stays.
func TestOrphansAreReaped(t *testing.T) {
	p := resolve(t, Config{}, Bubblewrap, Access{})
	const command = `for i in 1 2 3 4 5; do (sh -c : & :); done
		while set -- /proc/[0-9]*; [ $# != 2 ]; do :; done; echo reaped`
	if out, code := shell(t, p, "/", command); code != 0 || out != "reaped" {
		t.Errorf("%d: %q", code, out)
	}
}

// TestTableEndsWithCommand: what a command leaves behind ends with it, also in another session. The end of its output
// shows that.
func TestTableEndsWithCommand(t *testing.T) {
	p := resolve(t, Config{}, Bubblewrap, Access{})
	for _, command := range []string{
		"sleep 1000 & exit 4", "setsid sleep 1000 & exit 4", "(setsid sh -c 'sleep 1000 & sleep 1001' &); exit 4",
	} {
		process, r := start(t, p, "/", command)
		must(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
		if state, err := process.Wait(); err != nil || state.ExitCode() != 4 {
			t.Errorf("%s: %v, %v", command, state, err)
		}
		if _, err := io.ReadAll(r); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestTableEndsWithServer: a command and all that it has started end with the process that has started the command.
func TestTableEndsWithServer(t *testing.T) {
	resolve(t, Config{}, Bubblewrap, Access{})
	self, err := os.Executable()
	must(t, err)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	server := exec.Command(self)
	server.Env, server.Stdout = append(os.Environ(), envAttempt+"=serve"), w
	must(t, errors.Join(server.Start(), w.Close(), r.SetReadDeadline(time.Now().Add(time.Minute))))
	up := make([]byte, 3)
	_, err = io.ReadFull(r, up)
	must(t, errors.Join(err, server.Process.Kill()))
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("after the end of the server: %v", err)
	}
	_ = server.Wait()
}

// serve starts a command as a server does, and never ends.
func serve([]string) error {
	p, err := (&Config{}).Resolve(Bubblewrap, Access{})
	if err != nil {
		return err
	}
	_, err = p.Start("/bin/sh", []string{"sh", "-c", "setsid sleep 1000 & echo up; wait"}, &os.ProcAttr{
		Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []*os.File{nil, os.Stdout, nil},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err == nil {
		select {}
	}
	return err
}

// TestCommandOfServerThatEndsEarly: if we have ended before the kernel was asked to end the command with us, the
// command is not left behind.
func TestCommandOfServerThatEndsEarly(t *testing.T) {
	p := resolve(t, Config{}, Bubblewrap, Access{})
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	var prog program
	attr := &os.ProcAttr{
		Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []*os.File{nil, w, nil},
		Sys: &syscall.SysProcAttr{Setsid: true},
	}
	must(t, p.compile(&prog, "/bin/sh", []string{"sh", "-c", "setsid sleep 1000 & sleep 1000"}, attr))
	for i, c := range prog.calls {
		if c.number == unix.SYS_GETPPID {
			prog.calls[i].expect = 1 << 30 // nobody
		}
	}
	runLocked(t, &prog)
	prog.close()
	must(t, errors.Join(w.Close(), r.SetReadDeadline(time.Now().Add(time.Minute))))
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("the command is left: %v", err)
	}
}

// runLocked runs a program of which a step fails.
func runLocked(t *testing.T, prog *program) {
	t.Helper()
	done := make(chan error)
	go func() {
		_, err := prog.run(-1, false)
		done <- err
	}()
	if err := <-done; err == nil {
		t.Error("the step did not fail")
	}
}

// TestFirstProcessHoldsNothing looks at the first process of a table from outside.
func TestFirstProcessHoldsNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can look")
	}
	p := resolve(t, Config{}, Bubblewrap, Access{})
	process, r := start(t, p, "/", "echo up; exec sleep 1000")
	defer func() {
		_ = process.Kill()
		_, _ = process.Wait()
	}()
	_, err := io.ReadFull(r, make([]byte, 3))
	must(t, err)
	dir := firstOf(t, process.Pid)
	files, err := os.ReadDir(dir + "/fd")
	must(t, err)
	for deadline := time.Now().Add(time.Minute); len(files) < 3 && time.Now().Before(deadline); {
		files, err = os.ReadDir(dir + "/fd") // it has not opened all yet
		must(t, err)
	}
	if len(files) != 3 { // a pipe, the command, and signals
		t.Errorf("it has the descriptors %v", files)
	}
	status, err := os.ReadFile(dir + "/status")
	must(t, err)
	for _, want := range []string{
		"Name:\treprise-init\n",
		"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n",
	} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in %s", want, status)
		}
	}
	if environ, err := os.ReadFile(dir + "/environ"); len(environ) > 0 {
		t.Errorf("its environment is %q, %v", environ, err)
	}
}

// firstOf is the folder in /proc of the first process of the table of a command.
func firstOf(t *testing.T, command int) string {
	t.Helper()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", command))
	must(t, err)
	all, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	must(t, err)
	for _, path := range all {
		dir := filepath.Dir(filepath.Dir(path))
		if of, err := os.Readlink(path); err == nil && of == want && filepath.Base(dir) != strconv.Itoa(command) {
			return dir
		}
	}
	t.Fatal("no first process")
	return ""
}

// TestDevices: a command has the devices that every command has, terminals of its own, and can change none of that.
func TestDevices(t *testing.T) {
	p := resolve(t, Config{}, Bubblewrap, Access{})
	self, err := os.Executable()
	must(t, err)
	p.Access.Readable = []string{filepath.Dir(self)}
	for command, want := range map[string]string{
		`ls /dev | tr '\n' ' '`: "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero",
		`echo x >/dev/null && head -c 3 /dev/zero | tr '\0' 0 && head -c 1 /dev/urandom >/dev/null && echo`: "000",
		`echo x >/dev/new || mkdir /dev/d || rm /dev/null || mv /dev/zero /dev/x || echo no`:                "no",
		`echo x >/new || mkdir /d || rmdir /tmp || mv /tmp /t || echo no`:                                   "no",
		`echo x >/dev/shm/file && cat /dev/shm/file`:                                                        "x",
		`ls /dev/pts`:                        "ptmx",
		`ISOLATION_ATTEMPT=terminal ` + self: "/dev/pts/0",
		`echo out >/dev/stdout`:              "out",
	} {
		if out, _ := shell(t, p, "/", "{ "+command+"; } 2>/dev/null"); out != want {
			t.Errorf("%s: %q, want %q", command, out, want)
		}
	}
}

// openTerminal opens a terminal and prints its name.
func openTerminal([]string) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	name := fmt.Sprintf("/dev/pts/%d", n)
	if err == nil {
		_, err = unix.Open(name, unix.O_RDWR|unix.O_NOCTTY, 0)
	}
	fmt.Println(name)
	return err
}
