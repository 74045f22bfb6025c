//go:build amd64 || arm64

package isolation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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

	"golang.org/x/sys/unix"
)

// envAttempt makes the test binary the program that tries to get out; see attempt_linux_test.go.
const envAttempt = "ISOLATION_ATTEMPT"

func TestMain(m *testing.M) {
	if what := os.Getenv(envAttempt); what != "" {
		attempt(what, os.Args[1:])
	}
	if os.Geteuid() != 0 { // a server is undumpable, which makes the files of its children in /proc those of root
		if err := Undumpable(); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if os.Geteuid() != 0 && isDumpable() {
		fmt.Println("we are dumpable again")
		code = 1
	}
	os.Exit(code)
}

// start starts a command of the shell under a plan with its output in a pipe.
func start(t testing.TB, p *Plan, dir, command string, env ...string) (*os.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	process, err := p.Start("/bin/sh", []string{"sh", "-c", command}, &os.ProcAttr{
		Dir: dir, Files: []*os.File{null, w, w},
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C"}, env...),
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	w.Close()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return process, r
}

// shell runs a command of the shell under a plan and returns its output and its exit code, -1 for a signal.
func shell(t testing.TB, p *Plan, dir, command string, env ...string) (output string, code int) {
	t.Helper()
	process, r := start(t, p, dir, command, env...)
	late := time.AfterFunc(60*time.Second, func() { _ = process.Kill() })
	defer late.Stop()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	state, err := process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text)), state.ExitCode()
}

// masks holds paths as a server does.
func masks(t testing.TB, paths ...string) *Masks {
	t.Helper()
	m, err := OpenMasks(paths...)
	must(t, err)
	return m
}

// resolve returns a plan, and skips the test where this machine cannot give it.
func resolve(t testing.TB, c Config, level Level, want Access) *Plan {
	t.Helper()
	p, err := c.Resolve(level, want)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		t.Skip(refused)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestUnprivileged runs the other tests as a user who is not root.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("we are not root ourselves")
	}
	folder, err := os.MkdirTemp("", "isolation-*") // of which every directory above can be entered
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "isolation.test")
	if err := errors.Join(os.WriteFile(file, program, 0o755), os.Chmod(folder, 0o777|fs.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file, "-test.skip", "^TestUnprivileged$", "-test.v")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "HOME="+folder, "TMPDIR="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		for line := range strings.Lines(string(out)) {
			said := strings.TrimSpace(line)
			if !strings.Contains(said, "=== ") && !strings.HasPrefix(said, "--- PASS") {
				t.Error(said)
			}
		}
	}
	if !strings.Contains(string(out), "PASS: TestAttemptsFailAtLevelsThatStopThem") {
		t.Errorf("the attempts were not made:\n%s", out)
	}
}

// startFunc is Start or StartAlone.
type startFunc func(path string, argv []string, attr *os.ProcAttr) (*os.Process, error)

// TestStartAloneIsStart: the process has the same layers, and its standard input and output are those of attr.
func TestStartAloneIsStart(t *testing.T) {
	p := resolve(t, Config{}, Limits, Access{})
	const command = "read -r line; echo \"$line\"; grep -E 'Cap|NoNewPrivs|Seccomp|Sig(Blk|Ign|Cgt)' /proc/self/status"
	said := map[string]string{}
	for name, start := range map[string]startFunc{"alone": p.StartAlone, "beside": p.Start} {
		in, feed, err := os.Pipe()
		must(t, err)
		read, out, err := os.Pipe()
		must(t, err)
		process, err := start("/bin/sh", []string{"sh", "-c", command}, &os.ProcAttr{
			Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []*os.File{in, out, nil},
		})
		must(t, err)
		must(t, errors.Join(in.Close(), out.Close()))
		_, err = feed.WriteString("given\n")
		must(t, err)
		text, err := io.ReadAll(read)
		must(t, err)
		if _, err := process.Wait(); err != nil {
			t.Error(err)
		}
		must(t, errors.Join(feed.Close(), read.Close()))
		said[name] = string(text)
	}
	if said["alone"] != said["beside"] || !strings.HasPrefix(said["alone"], "given\nSigBlk:") {
		t.Errorf("alone:\n%s\nbeside:\n%s", said["alone"], said["beside"])
	}
}

func TestStartIsThatOfOS(t *testing.T) {
	p := resolve(t, Config{}, Limits, Access{})
	for name, c := range map[string]struct {
		path, dir string
		want      error
	}{
		"no program":   {"/no-such-program", "/", fs.ErrNotExist},
		"no directory": {"/bin/true", "/no-such-directory", fs.ErrNotExist},
		"no right":     {"/etc/passwd", "/", fs.ErrPermission},
	} {
		for _, start := range []startFunc{p.Start, p.StartAlone} {
			_, err := start(c.path, []string{c.path}, &os.ProcAttr{Dir: c.dir, Env: []string{}})
			if _, ok := errors.AsType[*os.PathError](err); !ok || !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
	attr := &os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	_, err := p.Start("/bin/true", []string{"true"}, attr)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an attribute that is not taken: %v", err)
	}
	out, code := shell(t, p, "/usr", `echo "$1$0" "$A"; pwd; exit 3`, "A=b  c")
	if out != "sh b  c\n/usr" || code != 3 {
		t.Errorf("%q, %d", out, code)
	}
	if _, code := shell(t, p, "/", "kill -TERM $$"); code != -1 {
		t.Errorf("a command that was to end by TERM exited with %d", code)
	}
	// Nothing of ours is open in the command, no signal is blocked, and the bound on files is not ours.
	want, err := exec.Command("/bin/sh", "-c", "ulimit -Sn; grep -E 'Sig(Blk|Ign)' /proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	out, _ = shell(t, p, "/", "ulimit -Sn; grep -E 'Sig(Blk|Ign)' /proc/self/status")
	if out != strings.TrimSpace(string(want)) {
		t.Errorf("limits and signals are %q, and of os/exec %q", out, want)
	}
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // as package spawn does: we may have inherited some
	if out, _ := shell(t, p, "/", "ls /proc/self/fd | tr '\\n' ' '"); out != "0 1 2 3" {
		t.Errorf("open descriptors: %s", out) // one of them is the directory
	}
}

func TestStartBoundsFilesAndSession(t *testing.T) {
	p := resolve(t, Config{}, Limits, Access{})
	out, _ := shell(t, p, "/", "cut -d' ' -f1,6 /proc/self/stat; cut -d' ' -f1,6 /proc/$$/stat")
	var child, session, shell, same int
	if n, _ := fmt.Sscan(out, &child, &session, &shell, &same); n != 4 || session != shell || same != shell {
		t.Errorf("the session is not that of the command: %q", out)
	}
}

func BenchmarkStart(b *testing.B) {
	for _, level := range Levels() {
		b.Run("level="+string(level), func(b *testing.B) {
			p := resolve(b, Config{Masks: masks(b, b.TempDir())}, level, Access{})
			for b.Loop() {
				process, err := p.Start("/bin/true", []string{"true"}, &os.ProcAttr{Dir: "/", Env: os.Environ()})
				if err != nil {
					b.Fatal(err)
				}
				if state, err := process.Wait(); err != nil || !state.Success() {
					b.Fatal(state, err)
				}
			}
		})
	}
}

// TestStartKeepsServerUndumpable: children cannot read the memory of a server, also after it has started commands.
func TestStartKeepsServerUndumpable(t *testing.T) {
	before := isDumpable()
	must(t, Undumpable())
	defer func() { must(t, setDumpable(before)) }()
	if isDumpable() {
		t.Fatal("we are dumpable")
	}
	p := resolve(t, Config{Masks: masks(t, t.TempDir())}, Limits, Access{})
	if out, code := shell(t, p, "/", "echo started"); out != "started" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
	if isDumpable() {
		t.Error("a start has made us dumpable")
	}
}

// TestPlanIsSent: a plan that was sent to another process as JSON is the same plan.
func TestPlanIsSent(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "token"), []byte(secret), 0o600))
	text, err := json.Marshal(resolve(t, Config{Masks: masks(t, dir)}, Limits, Access{Offline: true}))
	must(t, err)
	var p Plan
	must(t, json.Unmarshal(text, &p))
	out, _ := shell(t, &p, "/", "cat "+dir+"/token; grep -c : /proc/net/dev; ulimit -Sn")
	if strings.Contains(out, secret) || !strings.Contains(out, "\n1\n") {
		t.Errorf("%s", out)
	}
}

// TestCommandLeavesProcessesToServer: the bound of a command on the processes of its user is lower than that of the
// server, and the command cannot raise it.
func TestCommandLeavesProcessesToServer(t *testing.T) {
	var now unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NPROC, &now))
	if now.Cur == unix.RLIM_INFINITY {
		t.Skip("this user may have any number of processes")
	}
	out, _ := shell(t, resolve(t, Config{}, Limits, Access{}), "/", "grep 'Max processes' /proc/self/limits")
	most := strconv.FormatUint(now.Cur-now.Cur/8, 10)
	if f := strings.Fields(out); len(f) != 5 || f[2] != most || f[3] != most {
		t.Errorf("the server has %d, the command %q", now.Cur, out)
	}
}

// TestStepsThatFail: a start of which a step fails starts nothing, and says which one.
func TestStepsThatFail(t *testing.T) {
	p := resolve(t, Config{}, Limits, Access{})
	mark := filepath.Join(t.TempDir(), "mark")
	for name, spoil := range map[string]func(*Plan){
		"show": func(p *Plan) {
			usr, err := maskAt("/usr")
			must(t, err)
			p.Masks, p.Visible = []Mask{usr}, []string{"/usr/no-such-directory/code"}
		},
		"hide": func(p *Plan) { // something else is at the path
			usr, err := maskAt("/usr")
			must(t, err)
			usr.Ino++
			p.Masks = []Mask{usr}
		},
		"user": func(p *Plan) { p.User = &User{UID: 1 << 40, GID: -1} },
	} {
		if name != "user" && p.Layers.Hidden != ByMounts {
			continue
		}
		bad := *p
		spoil(&bad)
		_, err := bad.Start("/bin/touch", []string{"touch", mark}, &os.ProcAttr{Dir: "/", Env: []string{}})
		if step, ok := errors.AsType[*StepError](err); !ok || !strings.HasPrefix(step.Step, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command was started")
	}
}

// TestManyStarts: starts at once from many goroutines, while the heap moves, all end as they should.
func TestManyStarts(t *testing.T) {
	p := resolve(t, Config{Masks: masks(t, t.TempDir())}, Limits, Access{})
	var starting sync.WaitGroup
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	defer close(stop)
	for range 8 {
		starting.Go(func() {
			for i := range 25 {
				argv := []string{"sh", "-c", "exit " + strconv.Itoa(i)}
				process, err := p.Start("/bin/sh", argv, &os.ProcAttr{Env: []string{}})
				if err != nil {
					t.Error(err)
					return
				}
				if state, err := process.Wait(); err != nil || state.ExitCode() != i {
					t.Errorf("%v, %v; want code %d", state, err, i)
				}
			}
		})
	}
	starting.Wait()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	if len(names) > 40 {
		t.Errorf("%d descriptors are open", len(names))
	}
}
