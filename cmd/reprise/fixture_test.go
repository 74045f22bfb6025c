package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"reprise/internal/cutproxy"
	"reprise/internal/freeport"
	"reprise/internal/testserver"
)

// patience bounds everything that a script waits for.
const patience = 2 * time.Minute

// daemon is a server that a test has started.
type daemon struct {
	cmd  *exec.Cmd
	addr string
	done chan struct{} // closed when it has ended
	err  error         // of its end
}

// freeAddress is one at which a server can be started again.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// startDaemon starts a server and waits until it listens. Its stderr goes to the file log.
func startDaemon(env []string, dir, log string, args ...string) (*daemon, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProgram(&daemonSpec{
		path: program, args: append([]string{"reprise", "serve"}, args...), env: env,
		dir: dir, log: log,
	})
}

// daemonSpec says how to start a server: its program, all its arguments, and the file for its stderr.
type daemonSpec struct {
	path, dir, log string
	args, env      []string
	files          []*os.File          // passed on, from 3 on
	user           *syscall.Credential // nil for ours
}

// startProgram starts a server and waits until it listens.
func startProgram(spec *daemonSpec) (*daemon, error) {
	log := spec.log
	stderr, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	d := &daemon{done: make(chan struct{})}
	d.cmd = &exec.Cmd{
		Path: spec.path, Args: spec.args, Env: spec.env, Dir: spec.dir, Stderr: stderr, ExtraFiles: spec.files,
		SysProcAttr: &syscall.SysProcAttr{Credential: spec.user},
	}
	testserver.EndWithParent(d.cmd.SysProcAttr)
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started, ready := make(chan error), make(chan string, 1)
	go func() {
		runtime.LockOSThread() // see testserver.EndWithParent
		defer runtime.UnlockOSThread()
		err := d.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				_, addr, _ := strings.Cut(url, "://")
				ready <- addr
			}
		}
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	select {
	case d.addr = <-ready:
		return d, nil
	case <-d.done:
		text, _ := os.ReadFile(log)
		return nil, errors.New("the server ended: " + string(text))
	case <-time.After(patience):
		_ = d.kill()
		return nil, errors.New("the server does not listen")
	}
}

// kill ends the server as nothing else can and waits for its end.
func (d *daemon) kill() error { return d.signal(unix.SIGKILL) }

// signal sends a signal and waits for the end.
func (d *daemon) signal(signals ...unix.Signal) error {
	for _, s := range signals {
		if err := d.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	select {
	case <-d.done:
		return nil
	case <-time.After(patience):
		return errors.New("the server does not end")
	}
}

// fixture holds what a script has started.
type fixture struct {
	daemons map[string]*daemon
	addrs   map[string]string // of the servers by name, for their successors
	proxy   *cutproxy.Proxy
}

type fixtureKey struct{}

func newFixture(env *testscript.Env) *fixture {
	w := &fixture{daemons: map[string]*daemon{}, addrs: map[string]string{}}
	env.Defer(func() {
		for _, d := range w.daemons {
			_ = d.kill()
		}
		if w.proxy != nil {
			w.proxy.Close()
		}
	})
	return w
}

func fixtureOf(ts *testscript.TestScript) *fixture { return ts.Value(fixtureKey{}).(*fixture) }

func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: server NAME [FLAG...]")
	}
	w, name := fixtureOf(ts), args[0]
	listen := w.addrs[name]
	if listen == "" {
		var err error
		listen, err = freeport.Address()
		ts.Check(err)
	}
	var env []string
	for _, variable := range []string{
		"PATH", "TMPDIR", "XDG_STATE_HOME", "HOME", "GOCOVERDIR",
		"REPRISE_SECRET_OF_THE_SERVER",
	} {
		env = append(env, variable+"="+ts.Getenv(variable))
	}
	flags := append([]string{"--listen", listen, "--data", ts.MkAbs(name)}, args[1:]...)
	d, err := startDaemon(env, ts.MkAbs("."), ts.MkAbs(name+".log"), flags...)
	ts.Check(err)
	w.daemons[name], w.addrs[name] = d, d.addr
	token, err := os.ReadFile(ts.MkAbs(name + "/token"))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // --auth none makes none
		ts.Check(err)
	}
	ts.Setenv("REPRISE_TOKEN", strings.TrimSpace(string(token)))
	if w.proxy == nil {
		ts.Setenv("REPRISE_URL", "http://"+d.addr)
	}
}

// cmdHalt sends signals to a server and waits until it has ended; without a signal it ends by itself.
func cmdHalt(ts *testscript.TestScript, neg bool, args []string) {
	w := fixtureOf(ts)
	if len(args) == 0 || w.daemons[args[0]] == nil {
		ts.Fatalf("usage: halt NAME [SIGNAL...]")
	}
	d := w.daemons[args[0]]
	for i, name := range args[1:] {
		before := stoppings(ts, args[0])
		ts.Check(d.cmd.Process.Signal(unix.SignalNum("SIG" + name)))
		if i == 0 && len(args) > 2 {
			// Signals of one kind that wait to be handled are one: let it be handled.
			waitFor(ts, func() bool { return stoppings(ts, args[0]) > before })
		}
	}
	ts.Check(d.signal())
	if failed := d.err != nil; failed != neg {
		ts.Fatalf("the server ended with %v", d.err)
	}
}

// stoppings counts how often the servers of a name were asked to stop.
func stoppings(ts *testscript.TestScript, name string) int {
	log, err := os.ReadFile(ts.MkAbs(name + ".log"))
	ts.Check(err)
	return strings.Count(string(log), "msg=stopping")
}

func cmdProxy(ts *testscript.TestScript, neg bool, args []string) {
	w := fixtureOf(ts)
	opts := &cutproxy.Options{}
	if len(args) == 1 {
		limit, err := strconv.ParseInt(args[0], 10, 64)
		ts.Check(err)
		opts.Plan = cutproxy.Every(cutproxy.Fault{Kind: cutproxy.RST, After: limit})
	}
	p, err := cutproxy.Listen(strings.TrimPrefix(ts.Getenv("REPRISE_URL"), "http://"), opts)
	ts.Check(err)
	w.proxy = p
	ts.Setenv("REPRISE_URL", "http://"+p.Addr())
}

func cmdFront(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: front STATUS|refuse|off")
	}
	var texts []string
	if args[0] != "off" {
		texts = []string{args[0] + "*"}
	}
	plan, err := cutproxy.ParsePlan(texts, nil)
	ts.Check(err)
	fixtureOf(ts).proxy.SetPlan(plan)
	fixtureOf(ts).proxy.Cut()
}

func cmdCut(ts *testscript.TestScript, neg bool, args []string) { fixtureOf(ts).proxy.Cut() }

func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: until FILE REGEXP")
	}
	wanted, err := regexp.Compile(args[1])
	ts.Check(err)
	waitFor(ts, func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && wanted.Match(text)
	})
}

func waitFor(ts *testscript.TestScript, ok func() bool) {
	if !eventually(ok) {
		ts.Fatalf("condition not met within %v", patience)
	}
}

// eventually looks again and again whether something has happened.
func eventually(ok func() bool) bool { return happensWithin(patience, ok) }

// happensWithin is eventually with a patience of d.
func happensWithin(d time.Duration, ok func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return true
		}
	}
	return false
}
