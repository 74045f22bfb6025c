package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"reprise/client"
	"reprise/internal/cutproxy"
	"reprise/internal/screen"
	"reprise/internal/testserver"
)

// person is somebody at a terminal in which reprise runs.
type person struct {
	t             *testing.T
	cmd           *exec.Cmd
	master, slave *os.File
	before        unix.Termios
	done          chan struct{} // closed when reprise has ended

	mu     sync.Mutex
	more   *sync.Cond // on mu: seen has grown
	seen   []byte
	screen *screen.Screen
}

// sit runs reprise in a terminal of its own.
func sit(t *testing.T, o *outliving, url string, cols, rows int, args ...string) *person {
	t.Helper()
	program, err := os.Executable()
	check(t, err)
	master, slave, err := pty.Open()
	check(t, err)
	check(t, pty.Setsize(master, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}))
	p := &person{t: t, master: master, slave: slave, done: make(chan struct{}), screen: screen.New(cols, rows)}
	p.more = sync.NewCond(&p.mu)
	p.before = p.termios()
	token, err := os.ReadFile(o.dir + "/data/token")
	check(t, err)
	p.cmd = &exec.Cmd{
		Path: program, Args: append([]string{"reprise"}, args...), Dir: o.dir,
		Stdin: slave, Stdout: slave, Stderr: slave,
		Env: append(os.Environ(), "REPRISE_URL="+url,
			"REPRISE_TOKEN="+strings.TrimSpace(string(token)), "TERM=xterm-256color"),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	testserver.EndWithParent(p.cmd.SysProcAttr)
	check(t, p.cmd.Start())
	var reading sync.WaitGroup
	reading.Go(p.read)
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		_ = slave.Close()
		reading.Wait() // the last that has the slave is gone
		_ = master.Close()
	})
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *person) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.seen = append(p.seen, buf[:n]...)
		_, _ = p.screen.Write(buf[:n])
		p.more.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *person) termios() unix.Termios {
	p.t.Helper()
	state, err := unix.IoctlGetTermios(int(p.slave.Fd()), getTermios)
	check(p.t, err)
	return *state
}

func (p *person) types(keys string) {
	p.t.Helper()
	_, err := p.master.WriteString(keys)
	check(p.t, err)
}

// resizes gives the terminal another size, as the corner of its window does.
func (p *person) resizes(cols, rows int) {
	p.t.Helper()
	check(p.t, pty.Setsize(p.master, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.Resize(cols, rows)
}

// sees waits until something was written to the terminal n times.
func (p *person) sees(text string, n int) {
	p.t.Helper()
	p.waits(fmt.Sprintf("%q, %d times", text, n), func() bool { return bytes.Count(p.seen, []byte(text)) >= n })
}

// seesBytes waits until n bytes were written to the terminal.
func (p *person) seesBytes(n int) {
	p.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.more.Broadcast()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.seen) < n && !late {
		p.more.Wait()
	}
	if len(p.seen) != n {
		p.t.Fatalf("%d bytes, want %d", len(p.seen), n)
	}
}

// all is what was written to the terminal.
func (p *person) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.seen)
}

// shows waits until something is on the screen.
func (p *person) shows(text string) {
	p.t.Helper()
	p.waits(fmt.Sprintf("%q on the screen", text), func() bool { return strings.Contains(p.screen.Text(), text) })
}

func (p *person) waits(what string, ok func() bool) {
	p.t.Helper()
	if !eventually(func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return ok()
	}) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.t.Fatalf("there is no %s; the last of %d bytes: %q; the screen:\n%s",
			what, len(p.seen), p.seen[max(0, len(p.seen)-2000):], p.screen.Text())
	}
}

// leaves waits for the end of reprise, which gives the terminal back as it was.
func (p *person) leaves(code int) {
	p.t.Helper()
	ended := eventually(func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if !ended {
		p.waits("end of reprise", func() bool { return false })
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d", got, code)
	}
	if after := p.termios(); after != p.before {
		p.t.Errorf("the terminal is left with %+v, was %+v", after, p.before)
	}
	p.waits("main screen, plain", func() bool { return !p.screen.Alternate() && len(p.screen.Leave()) == 0 })
}

// openShell runs sh in a terminal and waits for its prompt.
func openShell(t *testing.T, o *outliving, url string, flags ...string) *person {
	t.Helper()
	p := sit(t, o, url, 100, 30,
		append(append([]string{"run", "-t", "-e", "PS1=> ", "--id", "sh"}, flags...), "--", "sh", "-i")...)
	p.sees("> ", 1)
	return p
}

// TestTerminalOfShell does what people do in a shell: sizes, Ctrl-C, Ctrl-Z and fg.
func TestTerminalOfShell(t *testing.T) {
	o := startOutliving(t)
	p := openShell(t, o, "http://"+o.daemon.addr)
	p.types("stty size; echo \"$TERM\"; tty -s && echo is a t\"\"ty\r")
	p.sees("30 100\r\nxterm-256color\r\nis a tty\r\n", 1)
	p.resizes(90, 20)
	p.types("while [ \"$(stty size)\" != '20 90' ]; do sleep 0.02; done; echo resi\"\"zed\r")
	p.sees("resized", 1)

	// A program of the foreground says that it is there: an interruption before that would be the shell's.
	p.types("sh -c 'echo sleep\"\"ing; exec sleep 1000'; echo not\"\"reached\r")
	p.sees("sleeping", 1)
	p.types("\x03")
	p.types("echo code $?\r")
	p.sees("code 130\r\n", 1)

	p.types("sh -c 'echo inn\"\"er; exec cat'\r")
	p.sees("inner", 1)
	p.types("\x1a")
	p.sees("Stopped", 1)
	p.types("fg\r")
	p.types("hello\r")
	p.sees("hello\r\n", 2) // the terminal's, and cat's
	p.types("\x04")
	p.types("exit 7\r")
	p.leaves(7)
	if strings.Contains(p.all(), "notreached") {
		t.Error("Ctrl-C has not ended the line")
	}
}

// TestTerminalIsAttachedFromElsewhere detaches, attaches with another size beside somebody who only watches, and types
// from two terminals.
func TestTerminalIsAttachedFromElsewhere(t *testing.T) {
	o := startOutliving(t)
	url := "http://" + o.daemon.addr
	first := openShell(t, o, url, "--detach-keys", "ctrl-],q")
	first.types("\x1dx\x7f\x7fecho from the fir\"\"st\r") // the beginning of the detach keys alone is typed
	first.sees("from the first", 1)
	first.types("printf '\\033[?1049h\\033[H\\033[1;31mon the %s screen\\033[0m\\033[2;1H' alternate\r")
	first.shows("on the alternate screen")
	first.types("\x1dq")
	first.sees(`"reprise attach sh" goes on`, 1)
	first.leaves(0)

	second := sit(t, o, url, 70, 15, "attach", "sh")
	second.shows("on the alternate screen")
	second.waits("alternate screen of few bytes",
		func() bool { return len(second.seen) < 5000 && second.screen.Alternate() })
	watcher := sit(t, o, url, 70, 15, "attach", "--read-only", "sh")
	watcher.shows("on the alternate screen")
	watcher.types("echo by the wat\"\"cher\r")
	third := sit(t, o, url, 60, 10, "attach", "sh")
	third.shows("on the alternate screen")
	for i := range 5 {
		second.types(fmt.Sprintf("echo second %d-\"\"%d\r", i, i))
		second.sees(fmt.Sprintf("second %d-%d", i, i), 1)
		third.types(fmt.Sprintf("echo third %d-\"\"%d\r", i, i))
		second.sees(fmt.Sprintf("third %d-%d", i, i), 1)
	}
	third.types("stty size\r")
	third.sees("10 60", 1)
	watcher.sees("10 60", 1)
	watcher.types("\x10\x11")
	watcher.leaves(0)
	second.types("exit 5\r")
	second.leaves(5)
	third.leaves(5)
	if strings.Contains(second.all(), "by the watcher") {
		t.Error("what a watcher has typed came to the command")
	}
	late := sit(t, o, url, 60, 10, "attach", "sh")
	late.sees("second 4-4", 1)
	late.shows("from the first") // on the main screen
	late.leaves(5)
}

// TestTerminalOutlivesConnections: connections are cut and the server is killed while somebody types. Each line comes
// to the command once and in order, and is seen once.
func TestTerminalOutlivesConnections(t *testing.T) {
	t.Parallel()
	o := startOutliving(t)
	proxy, err := cutproxy.Listen(o.daemon.addr, nil)
	check(t, err)
	defer proxy.Close()
	p := sit(t, o, "http://"+proxy.Addr(), 80, 24, "run", "-t", "--id", "x", "--",
		"sh", "-c", `stty -echo; echo up; while read line; do [ "$line" = end ] && exit 4; echo "got $line."; done`)
	p.sees("up\r\n", 1)
	const lines = 60
	for i := range lines {
		switch i % 20 {
		case 5, 10, 15:
			proxy.Cut()
		case 19:
			check(t, o.daemon.kill())
			p.types("while ")
			o.start()
		}
		p.types(fmt.Sprintf("line %d\r", i))
	}
	check(t, o.daemon.kill())
	p.types("typed while the server is away\r")
	p.sees("[reprise: no connection since", 1)
	o.start()
	p.sees("got typed while the server is away.", 1)
	p.types("end\r")
	p.leaves(4)
	var want strings.Builder
	for i := range lines {
		if i%20 == 19 {
			fmt.Fprintf(&want, "got while line %d.\n", i)
			continue
		}
		fmt.Fprintf(&want, "got line %d.\n", i)
	}
	var got strings.Builder
	for line := range strings.Lines(p.all()) {
		if strings.HasPrefix(line, "got ") {
			got.WriteString(strings.ReplaceAll(line, "\r", ""))
		}
	}
	if want := want.String() + "got typed while the server is away.\n"; got.String() != want {
		t.Errorf("the terminal showed\n%s\nwant\n%s", got.String(), want)
	}
}

// TestNoticeLeavesNoTrace: on a full screen the notice of a lost connection covers the first row, which is there again
// when the connection is.
func TestNoticeLeavesNoTrace(t *testing.T) {
	t.Parallel()
	o := startOutliving(t)
	p := sit(t, o, "http://"+o.daemon.addr, 80, 24, "run", "-t", "--id", "x", "--",
		"sh", "-c", `printf '\033[?1049h\033[H\033[32mthe first row\033[5;5Hmiddle'; read line; printf '!'; read line`)
	p.shows("middle")
	p.mu.Lock()
	before := p.screen.Paint()
	p.mu.Unlock()
	check(t, o.daemon.kill())
	p.shows("reprise: no connection since")
	o.start()
	p.shows("the first row")
	p.waits("the same screen", func() bool { return bytes.Equal(p.screen.Paint(), before) })
	p.types("\r")
	p.waits("what comes then in its place", func() bool { return strings.Contains(p.screen.Text(), "\n!") })
	p.types("\r")
	p.leaves(0)
}

// TestReattachedTerminalGetsLastScreen: a terminal that reconnects is sent the last screen in place of all output.
func TestReattachedTerminalGetsLastScreen(t *testing.T) {
	t.Parallel()
	o := startOutliving(t)
	proxy, err := cutproxy.Listen(o.daemon.addr, nil)
	check(t, err)
	defer proxy.Close()
	p := sit(t, o, "http://"+proxy.Addr(), 80, 24, "run", "-t", "--id", "x", "--", "sh", "-c",
		`echo up; read line; seq 1 200000; echo last; read line`)
	p.sees("up\r\n", 1)
	proxy.SetPlan(cutproxy.Every(cutproxy.Fault{Kind: cutproxy.Refuse}))
	proxy.Cut()
	_, err = o.client.WriteStdinAt(t.Context(), "x", client.StdinWrite{Writer: "other", Data: []byte("\n")})
	check(t, err)
	o.await("x", "last\r\n")
	proxy.SetPlan(nil)
	p.shows("200000\nlast")
	p.types("\r")
	p.leaves(0)
	if n := len(p.all()); n > 100_000 {
		t.Errorf("%d bytes for the last screen", n)
	}
}

// TestTerminalIsGivenBack whatever ends reprise.
func TestTerminalIsGivenBack(t *testing.T) {
	const command = `printf '\033[?1049h\033[?25l\033[?1000;2004hdrawn'; exec sleep 1000`
	for name, c := range map[string]struct {
		verb   string
		signal unix.Signal
		code   int
		status string
		away   bool // the server
	}{
		"run, TERM":               {"run", unix.SIGTERM, 143, client.StatusEnded, false},
		"run, HUP":                {"run", unix.SIGHUP, 129, client.StatusRunning, false},
		"attach, TERM":            {"attach", unix.SIGTERM, 143, client.StatusRunning, false},
		"attach, INT, no server":  {"attach", unix.SIGINT, 130, client.StatusRunning, true},
		"attach, HUP, no server":  {"attach", unix.SIGHUP, 129, client.StatusRunning, true},
		"attach, keys, no server": {"attach", 0, 0, client.StatusRunning, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := startOutliving(t)
			args := []string{"attach", "x"}
			if c.verb == "run" {
				args = []string{"run", "-t", "--id", "x", "--", "sh", "-c", command}
			} else {
				o.run("x", command, func(r *client.StartRequest) { r.TTY, r.StdinOpen = &client.TTY{}, true })
				o.await("x", "drawn")
			}
			p := sit(t, o, "http://"+o.daemon.addr, 80, 24, args...)
			p.shows("drawn")
			if c.away {
				check(t, o.daemon.kill())
			}
			if c.signal == 0 {
				p.types("\x10\x11")
			} else {
				check(t, p.cmd.Process.Signal(c.signal))
			}
			p.leaves(c.code)
			if c.away {
				o.start()
			}
			var x client.Execution
			if !eventually(func() bool {
				x, _ = o.client.Show(t.Context(), "x")
				return x.Status == c.status
			}) {
				t.Errorf("the command is %s, want %s", x.Status, c.status)
			}
			check(t, o.client.Remove(t.Context(), "x"))
		})
	}
}

// TestTerminalIsGivenBackAfterPanic: a bug of ours does not leave a terminal without echo.
func TestTerminalIsGivenBackAfterPanic(t *testing.T) {
	master, slave, err := pty.Open()
	check(t, err)
	defer master.Close()
	defer slave.Close()
	before, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	check(t, err)
	our := &terminal{in: slave, out: slave, turn: make(chan struct{}, 1), screen: screen.New(80, 24)}
	check(t, our.raw())
	if now, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios); err != nil || *now == *before {
		t.Fatalf("raw changes nothing, %v", err)
	}
	var panicked any
	func() {
		defer func() { panicked = recover() }()
		defer our.guard()
		panic("a bug")
	}()
	after, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err != nil || *after != *before || panicked != "a bug" {
		t.Errorf("after %v the terminal has %+v, %v", panicked, after, err)
	}
}

func TestAttachIsRefused(t *testing.T) {
	o := startOutliving(t)
	o.run("plain", "exec sleep 1000", nil)
	url := "http://" + o.daemon.addr
	plain := sit(t, o, url, 80, 24, "attach", "plain")
	plain.shows("plain has no terminal")
	plain.leaves(exitUsage)
	none := sit(t, o, url, 80, 24, "attach", "none")
	none.leaves(exitOurs)
	keys := sit(t, o, url, 80, 24, "attach", "--detach-keys", "ctrl-p,", "none")
	keys.shows("--detach-keys")
	keys.leaves(exitUsage)
	var out bytes.Buffer
	cmd := &exec.Cmd{Path: plain.cmd.Path, Args: []string{"reprise", "attach", "plain"}, Env: plain.cmd.Env}
	cmd.Stderr = &out
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(out.String(), "needs a terminal") {
		t.Errorf("%v: %s", err, &out)
	}
	check(t, o.client.Remove(t.Context(), "plain"))
}
