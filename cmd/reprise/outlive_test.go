package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reprise/client"
	"reprise/internal/testserver"
)

// The short form of these tests runs in CI; "make soak" sets envSoak.
const envSoak = "REPRISE_TEST_SOAK"

func soaking() bool { return os.Getenv(envSoak) != "" }

// outliving is a server that is killed and started again on the same data directory and address.
type outliving struct {
	t      *testing.T
	dir    string
	listen string
	flags  []string // of the server, besides
	daemon *daemon
	client *client.Client
}

func startOutliving(t *testing.T) *outliving {
	t.Helper()
	o := &outliving{t: t}
	o.open()
	return o
}

// open starts the server for the first time.
func (o *outliving) open() {
	t := o.t
	t.Helper()
	o.dir, o.listen = testserver.TempDir(t), freeAddress(t)
	o.start()
	t.Cleanup(func() {
		_ = o.daemon.kill()
		o.endLeft()
	})
	token, err := os.ReadFile(filepath.Join(o.dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	o.client, err = client.New(&client.Options{
		URL: "http://" + o.daemon.addr, Token: strings.TrimSpace(string(token)),
		MinWait: 10 * time.Millisecond, MaxWait: 50 * time.Millisecond, GiveUp: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (o *outliving) start() {
	o.t.Helper()
	d, err := startDaemon(os.Environ(), o.dir, filepath.Join(o.dir, "log"), append([]string{
		"--listen", o.listen, "--data", filepath.Join(o.dir, "data"), "--log-level", "warn",
		"--retain-events", "1000000", "--retain-bytes", "1GiB",
	}, o.flags...)...)
	if err != nil {
		o.t.Fatal(err)
	}
	o.daemon, o.listen = d, d.addr
}

// restart kills the server, lets some time pass, and starts it again.
func (o *outliving) restart(away time.Duration) {
	o.t.Helper()
	if err := o.daemon.kill(); err != nil {
		o.t.Fatal(err)
	}
	<-time.After(away)
	o.start()
}

// endLeft kills the supervisors that a failed test has left, by the locks that they hold.
func (o *outliving) endLeft() {
	for { // spare ones too: they make and remove files until they are gone
		locks, err := filepath.Glob(filepath.Join(o.dir, "data", "runs", "*", "lock"))
		if err != nil {
			o.t.Error(err)
		}
		pids := holders(locks)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// runs are the directories of the runs that there are.
func (o *outliving) runs(pattern string) []string {
	dirs, err := filepath.Glob(filepath.Join(o.dir, "data", "runs", pattern, "lock"))
	if err != nil {
		o.t.Error(err)
	}
	return slices.DeleteFunc(dirs, func(lock string) bool {
		return strings.HasPrefix(filepath.Base(filepath.Dir(lock)), "spare-") // of the next run
	})
}

// supervisors are the processes that have the directory of a run.
func (o *outliving) supervisors(pattern string) (pids []int) { return holders(o.runs(pattern)) }

// holders are the processes that have one of some files open.
func holders(locks []string) (pids []int) {
	for _, lock := range locks {
		fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && to == lock {
				pid, err := strconv.Atoi(strings.Split(fd, "/")[2])
				if err == nil && pid != os.Getpid() && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// run starts a command under an id.
func (o *outliving) run(id, command string, change func(*client.StartRequest)) {
	o.t.Helper()
	req := client.StartRequest{ID: id, Command: command}
	if change != nil {
		change(&req)
	}
	if _, err := o.client.Start(o.t.Context(), req); err != nil {
		o.t.Fatal(err)
	}
}

// follow reads an execution to its end.
func (o *outliving) follow(id string) (stdout string, end *client.End) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 2*patience)
	defer cancel()
	var out strings.Builder
	for event, err := range o.client.Follow(ctx, id, &client.FollowOptions{OnGap: client.GapFail}) {
		switch {
		case err != nil:
			o.t.Errorf("%s: %v", id, err)
			return out.String(), nil
		case event.Type == "stdout":
			out.Write(event.Data)
		case event.End != nil:
			end = event.End
		}
	}
	return out.String(), end
}

// await reads an execution until its output has a text.
func (o *outliving) await(id, text string) string {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	var out strings.Builder
	for event, err := range o.client.Follow(ctx, id, nil) {
		if err != nil {
			o.t.Fatalf("%s: %v, after %q", id, err, out.String())
		}
		if event.Type == "stdout" {
			out.Write(event.Data)
		}
		if strings.Contains(out.String(), text) {
			return out.String()
		}
	}
	o.t.Fatalf("%s ended with %q", id, out.String())
	return ""
}

func (o *outliving) wantEnd(id string, end *client.End, outcome string, code int) {
	o.t.Helper()
	if end == nil || string(end.Outcome) != outcome || code >= 0 && (end.ExitCode == nil || *end.ExitCode != code) {
		o.t.Errorf("%s ends with %+v, want %s %d", id, end, outcome, code)
	}
}

// TestServerIsKilledWhileCommandsRun kills the server at random moments while ten commands print numbered lines.
// Every line is there once, every exit code is true, and each command was started once. (G1, G2, G4, G9)
func TestServerIsKilledWhileCommandsRun(t *testing.T) {
	t.Parallel()
	kills, lines := 15, 1500
	if soaking() {
		kills, lines = 200, 40_000
	}
	o := startOutliving(t)
	const commands = 10
	for i := range commands {
		id := fmt.Sprint("count", i)
		o.run(id, fmt.Sprintf(`echo started >> %s/%s; i=0
			while [ $i -lt %d ]; do i=$((i+1)); echo $i; case $i in *[05]0) sleep 0.05;; esac; done; exit %d`, o.dir,
			id, lines, i), nil)
	}
	for i := range commands { // a server that is killed before it has started a command ends that as lost
		id := fmt.Sprint("count", i)
		if !eventually(func() bool { _, err := os.Stat(filepath.Join(o.dir, id)); return err == nil }) {
			t.Fatalf("%s is not started", id)
		}
	}
	outputs, ends := make([]string, commands), make([]*client.End, commands)
	var following sync.WaitGroup
	for i := range commands {
		following.Go(func() { outputs[i], ends[i] = o.follow(fmt.Sprint("count", i)) })
	}
	for range kills {
		<-time.After(rand.N(150 * time.Millisecond)) // a moment like any other
		o.restart(rand.N(20 * time.Millisecond))
	}
	following.Wait()
	var want bytes.Buffer
	for i := range lines {
		want.Write(append(strconv.AppendInt(want.AvailableBuffer(), int64(i+1), 10), '\n'))
	}
	for i := range commands {
		id := fmt.Sprint("count", i)
		o.wantEnd(id, ends[i], client.Exited, i)
		if outputs[i] != want.String() {
			t.Errorf("%s: %d bytes of output, want %d", id, len(outputs[i]), want.Len())
		}
		if started, err := os.ReadFile(filepath.Join(o.dir, id)); err != nil || string(started) != "started\n" {
			t.Errorf("%s was started %q, %v", id, started, err)
		}
		if ends[i] != nil && (ends[i].Bytes.Stdout != int64(want.Len()) || ends[i].OutputTruncated) {
			t.Errorf("%s: the end says %+v", id, ends[i])
		}
	}
	if !eventually(func() bool { return len(o.runs("*")) == 0 }) {
		t.Errorf("directories are left: %v", o.runs("*"))
	}
}

// TestServerTakesUpHundredCommandsAfterAKill: a server that was killed with 100 running commands follows all of them
// again. "go test -v" prints how long that takes.
func TestServerTakesUpHundredCommandsAfterAKill(t *testing.T) {
	if !soaking() {
		t.Skip("part of make soak")
	}
	const many = 100
	o := startOutliving(t)
	if err := o.daemon.kill(); err != nil {
		t.Fatal(err)
	}
	o.flags = []string{"--max-running", strconv.Itoa(many)}
	o.start()
	for i := range many {
		o.run(fmt.Sprint("cat-", i), "echo up; exec cat", func(r *client.StartRequest) { r.StdinOpen = true })
	}
	for i := range many {
		o.await(fmt.Sprint("cat-", i), "up")
	}
	if err := o.daemon.kill(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	o.start()
	answers := time.Since(begun)
	for i := range many {
		if _, err := o.client.WriteStdin(t.Context(), fmt.Sprint("cat-", i), 0, []byte("again\n"), true); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		output, end := o.follow(fmt.Sprint("cat-", i))
		o.wantEnd(fmt.Sprint("cat-", i), end, client.Exited, 0)
		if output != "up\nagain\n" {
			t.Errorf("cat-%d printed %q", i, output)
		}
	}
	t.Logf("it answers %v after its start, and all %d commands have ended after %v", answers, many, time.Since(begun))
}

// TestCommandIsReachedAfterARestart: stdin goes on at its offset, signals and cancel work.
func TestCommandIsReachedAfterARestart(t *testing.T) {
	o := startOutliving(t)
	open := func(r *client.StartRequest) { r.StdinOpen = true }
	o.run("echo", `while read line; do echo "got $line"; done; exit 3`, open)
	o.run("signal", `trap 'echo caught; exit 4' USR1; echo up; while :; do sleep 0.02; done`, nil)
	o.run("cancel", `echo up; exec sleep 600`, nil)
	ctx := t.Context()
	w := o.client.StdinWriter(ctx, "echo", 0)
	if _, err := w.Write([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	o.await("echo", "got one")
	o.await("signal", "up")
	o.await("cancel", "up")
	o.restart(0)
	if _, err := w.Write([]byte("two\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := o.client.Signal(ctx, "signal", "USR1"); err != nil {
		t.Fatal(err)
	}
	if err := o.client.Cancel(ctx, "cancel"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]struct {
		outcome, output string
		code            int
	}{
		"echo": {client.Exited, "got one\ngot two\n", 3}, "signal": {client.Exited, "up\ncaught\n", 4},
		"cancel": {client.Cancelled, "up\n", -1},
	} {
		output, end := o.follow(id)
		o.wantEnd(id, end, want.outcome, want.code)
		if output != want.output {
			t.Errorf("%s: output %q", id, output)
		}
	}
}

// TestLimitsHoldWithoutAServer: a timeout and the bound of the output end commands while no server is there.
func TestLimitsHoldWithoutAServer(t *testing.T) {
	t.Parallel()
	o := startOutliving(t)
	gate := filepath.Join(o.dir, "gate")
	wait := fmt.Sprintf("echo up; until [ -e %s ]; do sleep 0.02; done; ", gate)
	o.run("loud", wait+"yes", func(r *client.StartRequest) { r.Limits.OutputBytes = 100_000 })
	o.run("short", wait+"seq 1 20000; kill -SEGV $$", nil)
	o.await("loud", "up")
	o.await("short", "up")
	var slow string
	for timeout := time.Second; ; timeout *= 2 { // until the server is killed before the command is
		slow = fmt.Sprint("slow-", timeout)
		o.run(slow, "echo up; exec sleep 600", func(r *client.StartRequest) { r.Timeout = client.Duration(timeout) })
		o.await(slow, "up")
		if err := o.daemon.kill(); err != nil {
			t.Fatal(err)
		}
		if len(o.runs("*")) == 3 {
			break
		}
		o.start()
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := func() bool {
		files, _ := filepath.Glob(filepath.Join(o.dir, "data", "runs", "*", "end.json"))
		return len(files) == 3
	}
	if !eventually(ended) {
		t.Fatal("the commands do not end without a server")
	}
	o.start()
	_, end := o.follow(slow)
	o.wantEnd(slow, end, client.TimedOut, -1)
	if output, end := o.follow("loud"); end == nil || end.Outcome != client.LimitExceeded || len(output) != 100_000 {
		t.Errorf("loud: %d bytes, %+v", len(output), end)
	}
	output, end := o.follow("short")
	if end == nil || end.Signal == nil || *end.Signal != "SEGV" || strings.Count(output, "\n") != 20_001 {
		t.Errorf("short: %d lines, %+v", strings.Count(output, "\n"), end)
	}
}

// TestSupervisorIsKilled: the run is lost, with the output until then, and nothing of its tree goes on; also when
// the server is away meanwhile.
func TestSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprint("server_away=", away), func(t *testing.T) {
			o := startOutliving(t)
			o.run("tree", `echo "pid $$"; setsid sh -c 'echo "pid $$"; echo up; exec sleep 600' & exec sleep 600`, nil)
			output := o.await("tree", "up")
			if away {
				if err := o.daemon.kill(); err != nil {
					t.Fatal(err)
				}
			}
			var pids []int
			if !eventually(func() bool { pids = o.supervisors("*"); return len(pids) == 1 }) {
				t.Fatalf("supervisors %v", pids)
			}
			if err := unix.Kill(pids[0], unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if away {
				o.start()
			}
			got, end := o.follow("tree")
			o.wantEnd("tree", end, client.Lost, -1)
			if got != output || end == nil || end.Error != "its supervisor was killed" {
				t.Errorf("output %q, %+v", got, end)
			}
			for line := range strings.SplitSeq(output, "\n") {
				var pid int
				if _, err := fmt.Sscanf(line, "pid %d", &pid); err == nil {
					if !eventually(func() bool { return unix.Kill(pid, 0) != nil }) {
						t.Errorf("process %d goes on", pid)
					}
				}
			}
			if !eventually(func() bool { return len(o.runs("*")) == 0 }) {
				t.Errorf("directories are left: %v", o.runs("*"))
			}
		})
	}
}

// TestUpgradeAndRollbackTakeOverCommands: a server of another build is killed, its program is removed, and this build
// takes up what its supervisors have. Then the other build takes up what this one's have, as after a step back.
func TestUpgradeAndRollbackTakeOverCommands(t *testing.T) {
	t.Parallel()
	dir := testserver.TempDir(t)
	old := filepath.Join(dir, "reprise-old")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", old, ".")
	if built := os.Getenv("REPRISE_BIN"); built != "" {
		build = exec.Command("cp", built, old)
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	kept := filepath.Join(dir, "kept")
	if err := os.Link(old, kept); err != nil {
		t.Fatal(err)
	}
	v := version{path: old, dir: dir, store: "sqlite:"}
	d, c := v.mustServe(t, "data")
	o := &outliving{t: t, dir: dir, client: c, daemon: d}
	t.Cleanup(o.endLeft)
	if err := os.Remove(old); err != nil { // before the first supervisor is needed
		t.Fatal(err)
	}
	const command = `echo up; while read line; do echo "$line"; done; exit 6`
	open := func(r *client.StartRequest) { r.StdinOpen = true }
	o.run("forward", command, open)
	o.await("forward", "up")
	said := map[string]int64{}
	say := func(id, text string, eof bool) {
		t.Helper()
		if _, err := o.client.WriteStdin(t.Context(), id, said[id], []byte(text), eof); err != nil {
			t.Fatal(err)
		}
		said[id] += int64(len(text))
	}
	say("forward", "to the old one\n", false)
	o.await("forward", "old")
	if err := d.kill(); err != nil {
		t.Fatal(err)
	}

	d, o.client = version{dir: dir, store: v.store}.mustServe(t, "data")
	o.run("back", command, open)
	o.await("back", "up")
	say("forward", "to the new one\n", true)
	output, end := o.follow("forward")
	o.wantEnd("forward", end, client.Exited, 6)
	if output != "up\nto the old one\nto the new one\n" {
		t.Errorf("forward: output %q", output)
	}
	stop(t, d)

	v.path = kept
	_, o.client = v.mustServe(t, "data")
	say("back", "to the old one\n", true)
	output, end = o.follow("back")
	o.wantEnd("back", end, client.Exited, 6)
	if output != "up\nto the old one\n" {
		t.Errorf("back: output %q", output)
	}
}
