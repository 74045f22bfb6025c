package execution_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

// leave opens a Host, lets it start what start says, and leaves that running.
func leave(t *testing.T, log *reprise.Log, opts execution.Options, start func(h *execution.Host)) {
	t.Helper()
	opts.Drive = interpreter.Drive
	h, err := execution.Open(t.Context(), log, &opts)
	if err != nil {
		t.Fatal(err)
	}
	start(h)
	if _, err := h.Leave(); err != nil {
		t.Fatal(err)
	}
}

// runDirs are the directories of the runs that there are.
func runDirs(t *testing.T, opts execution.Options) []string {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(opts.RunsDir, "*", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range locks {
		locks[i] = filepath.Dir(locks[i])
	}
	return slices.DeleteFunc(locks, func(dir string) bool { return strings.HasPrefix(filepath.Base(dir), "spare-") })
}

// TestNewHostTakesUpExecutions: a Host takes up the running and the ended commands that an earlier Host has left.
func TestNewHostTakesUpExecutions(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	dir := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: dir}
	leave(t, log, opts, func(h *execution.Host) {
		start(t, h, execution.Request{ID: "goes", Session: "s", Command: "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 9"})
		start(t, h, execution.Request{ID: "ends", Command: "echo one; exec 1>&- 2>&-; sleep 0.3; exit 8"})
		start(t, h, execution.Request{ID: "forks", Command: "echo one; (sleep 0.3; echo two) & exit 7"})
		start(t, h, execution.Request{ID: "reads", Command: "cat", StdinOpen: true})
		start(t, h, execution.Request{
			ID:      "tty",
			Command: "tty; while [ ! -e go ]; do sleep 0.01; done; tty",
			TTY:     &execution.TTY{},
		})
		for _, id := range []string{"goes", "ends", "forks"} {
			await(t, h, id, "one")
		}
		if _, err := h.WriteStdin(within(t), tenant, "reads", execution.StdinWrite{
			Data: strings.NewReader("one "),
		}); err != nil {
			t.Fatal(err)
		}
		await(t, h, "reads", "one")
		await(t, h, "tty", "/dev/pts")
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, log, opts)
	if x, err := h.Show(within(t), tenant, "goes"); err != nil || x.Session != "s" || x.Bytes.Stdout < 4 {
		t.Errorf("%+v, %v", x, err)
	}
	state, err := h.WriteStdin(within(t), tenant, "reads",
		execution.StdinWrite{Offset: 2, Data: strings.NewReader("e two"), EOF: true})
	if err != nil || state.Offset != 7 || state.Open {
		t.Errorf("stdin: %+v, %v", state, err)
	}
	for id, want := range map[string]struct {
		code   int
		output string
	}{"goes": {9, "one\ntwo\n"}, "ends": {8, "one\n"}, "forks": {7, "one\ntwo\n"}, "reads": {0, "one two"}} {
		x := finish(t, h, id)
		wantOutcome(t, x, execution.Exited, want.code, "")
		if got := string(output(t, h, id, execution.Stdout)); got != want.output || x.Bytes.Stdout != int64(len(got)) ||
			x.OutputTruncated {
			t.Errorf("%s: output %q, %+v", id, got, x)
		}
	}
	finish(t, h, "tty")
	if got := strings.Fields(string(output(t, h, "tty", execution.Stdout))); len(got) != 2 || got[0] != got[1] {
		t.Errorf("terminals %q", got)
	}
	until(t, "the directories are removed", func() bool { return len(runDirs(t, opts)) == 0 })
}

// TestSupervisorsThatStandStillAreWaitedForTogether: supervisors that accept a connection and say nothing are all
// connected to before the first is given up, and their commands go on once they answer again.
func TestSupervisorsThatStandStillAreWaitedForTogether(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	dir := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: dir, Grace: patience}
	ids := []string{"one", "two", "three"}
	leave(t, log, opts, func(h *execution.Host) {
		for _, id := range ids {
			start(t, h, execution.Request{ID: id, Command: "echo one; while [ ! -e go ]; do sleep 0.01; done"})
			await(t, h, id, "one")
		}
	})
	connected := make(chan net.Conn)
	var back []func()
	for _, run := range runDirs(t, opts) {
		back = append(back, standStill(t, filepath.Join(run, "sock"), connected))
	}
	opened, failed := make(chan *execution.Host, 1), make(chan error, 1)
	go func() {
		h, err := execution.Open(t.Context(), log, &opts)
		failed <- err
		opened <- h
	}()
	conns := make([]net.Conn, len(ids))
	for i := range conns {
		select {
		case conns[i] = <-connected:
		case err := <-failed:
			t.Fatalf("opened before %d supervisors were connected to: %v", len(ids), err)
		}
	}
	text := make([]byte, 1<<10)
	if n, err := conns[0].Read(text); err != nil || n == 0 { // the hello
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := conns[0].SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conns[0].Read(text); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first supervisor was given up before the others were connected to: %v", err)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	for _, f := range back {
		f()
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	h := <-opened
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		wantOutcome(t, finish(t, h, id), execution.Exited, 0, "")
	}
}

// standStill puts a listener that answers nothing in the place of a supervisor's, until back is called.
func standStill(t *testing.T, socket string, connected chan<- net.Conn) (back func()) {
	t.Helper()
	if err := os.Rename(socket, socket+".away"); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case connected <- conn:
			case <-over: // a further try
				_ = conn.Close()
			}
		}
	}()
	return func() {
		close(over)
		_ = l.Close()
		if err := os.Rename(socket+".away", socket); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedSpool: what cannot be read is not in the stream, the rest is, the end is true and says so.
func TestDamagedSpool(t *testing.T) {
	t.Parallel() // it waits most of the time
	const lines = 300_000
	for name, damage := range map[string]func(t *testing.T, dir string){
		"bit flipped": func(t *testing.T, dir string) {
			f, err := os.OpenFile(firstSegment(t, dir), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{'!'}, 900_000); err != nil {
				t.Fatal(err)
			}
		},
		"cut in a frame": func(t *testing.T, dir string) {
			if err := os.Truncate(firstSegment(t, dir), 900_000); err != nil {
				t.Fatal(err)
			}
		},
		"deleted": func(t *testing.T, dir string) {
			if err := os.Remove(firstSegment(t, dir)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := newLog(t, memstore.New(nil), nil)
			work := t.TempDir()
			opts := execution.Options{RunsDir: t.TempDir(), Dir: work}
			leave(t, log, opts, func(h *execution.Host) {
				start(t, h, execution.Request{
					ID: "x", Retention: execution.Retention{MaxBytes: 1 << 30, MaxEvents: 1 << 20},
					Command: fmt.Sprintf("echo up; while [ ! -e go ]; do sleep 0.01; done; seq 1 %d; exit 3", lines),
				})
				await(t, h, "x", "up")
			})
			if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			dir := runDirs(t, opts)[0]
			until(t, "it ends without a server", func() bool {
				_, err := os.Stat(filepath.Join(dir, "end.json"))
				return err == nil
			})
			damage(t, dir)
			h := openHost(t, log, opts)
			x := finish(t, h, "x")
			wantOutcome(t, x, execution.Exited, 3, "")
			got := string(output(t, h, "x", execution.Stdout))
			if !x.OutputTruncated || x.Bytes.Stdout != int64(len(got)) || !strings.HasPrefix(got, "up\n") {
				t.Errorf("%d bytes of output, %+v", len(got), x)
			}
			last := 0
			for line := range strings.SplitSeq(strings.TrimPrefix(got, "up\n"), "\n") {
				// more are two that the gap has joined
				if n, err := strconv.Atoi(line); err == nil && n > last && n <= lines {
					last = n
				}
			}
			if name == "bit flipped" && (last != lines || len(got) < 1<<20) {
				t.Errorf("%d bytes, the last line is %d", len(got), last)
			}
		})
	}
}

// TestEndIsOnDiskAtOnceWithoutAServer: where no server is connected, the end does not wait for one to fetch it. Until
// then a kill of the supervisor would lose it.
func TestEndIsOnDiskAtOnceWithoutAServer(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	work := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: work}
	const commands = 12 // on a busy machine some are late; with a delay all would be
	leave(t, log, opts, func(h *execution.Host) {
		for i := range commands {
			id := fmt.Sprint("x", i)
			start(t, h, execution.Request{ID: id, Command: fmt.Sprintf(
				"echo up; until [ -e go%d ]; do sleep 0.02; done; : > over%d", i, i)})
			await(t, h, id, "up")
		}
	})
	changed := func(path string) (time.Time, bool) {
		info, err := os.Stat(path)
		if err != nil {
			return time.Time{}, false
		}
		return info.ModTime(), true
	}
	var delays []time.Duration
	for i := range commands {
		before, err := filepath.Glob(filepath.Join(opts.RunsDir, "*", "end.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, fmt.Sprint("go", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var ended []string
		until(t, "the end is on disk", func() bool {
			ended, _ = filepath.Glob(filepath.Join(opts.RunsDir, "*", "end.json"))
			return len(ended) > len(before)
		})
		over, _ := changed(filepath.Join(work, fmt.Sprint("over", i)))
		for _, path := range ended {
			if at, ok := changed(path); ok && !slices.Contains(before, path) {
				delays = append(delays, at.Sub(over))
			}
		}
	}
	if slices.Min(delays) > 40*time.Millisecond {
		t.Errorf("ends were on disk after %v", delays)
	}
	h := openHost(t, log, opts)
	for i := range commands {
		wantOutcome(t, finish(t, h, fmt.Sprint("x", i)), execution.Exited, 0, "")
	}
}

// firstSegment is the first file of a spool.
func firstSegment(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if err != nil || len(names) == 0 {
		t.Fatalf("segments %v, %v", names, err)
	}
	return names[0]
}

// TestDirectoryIsRemoved: nobody can find the command again, so it is ended, and its execution is lost.
func TestDirectoryIsRemoved(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprint("away=", away), func(t *testing.T) {
			t.Parallel()
			log := newLog(t, memstore.New(nil), nil)
			opts := execution.Options{RunsDir: t.TempDir()}
			var pids []int
			begin := func(h *execution.Host) {
				start(t, h, execution.Request{ID: "x", Command: treeCommand})
				pids = children(await(t, h, "x", "up"))
			}
			remove := func() {
				if err := os.RemoveAll(runDirs(t, opts)[0]); err != nil {
					t.Fatal(err)
				}
			}
			var h *execution.Host
			if away {
				leave(t, log, opts, begin)
				remove()
				h = openHost(t, log, opts)
			} else {
				h = openHost(t, log, opts)
				begin(h)
				remove()
			}
			if x := finish(t, h, "x"); x.Outcome != execution.Lost || x.Error == "" {
				t.Errorf("%+v", x)
			}
			if len(pids) != 2 {
				t.Fatalf("processes %v", pids)
			}
			for _, pid := range pids {
				until(t, "the processes are gone", func() bool { return !alive(pid) })
			}
		})
	}
}

// TestDetachedProcessesEndWithTheirExecution: a process that leaves its session, its parent and its environment is
// killed with the execution. So is one that was moved out of its cgroup.
func TestDetachedProcessesEndWithTheirExecution(t *testing.T) {
	for _, scan := range []bool{false, true} {
		t.Run(fmt.Sprint("cgroups=", !scan), func(t *testing.T) {
			h := newHost(t, execution.Options{RunsDir: t.TempDir(), DisableCgroups: scan})
			const escape = `
				env -i setsid sh -c 'echo $$ > /sys/fs/cgroup/unified/cgroup.procs || echo $$ > /sys/fs/cgroup/cgroup.procs
					(exec env -i PATH="$PATH" setsid sh -c "echo child \$\$; echo up; exec sleep 1000") &' 2>/dev/null &
				exec sleep 1000`
			x := start(t, h, execution.Request{Command: escape})
			pids := children(await(t, h, x.ID, "up"))
			if len(pids) != 1 || !alive(pids[0]) {
				t.Fatalf("processes %v", pids)
			}
			if err := h.Cancel(within(t), tenant, x.ID); err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, finish(t, h, x.ID), execution.Cancelled, 0, "TERM")
			until(t, "it is gone", func() bool { return !alive(pids[0]) })
		})
	}
}

// TestForkBombEnds within the time that a tree has.
func TestForkBombEnds(t *testing.T) {
	for _, scan := range []bool{false, true} {
		t.Run(fmt.Sprint("cgroups=", !scan), func(t *testing.T) {
			h := newHost(t, execution.Options{RunsDir: t.TempDir(), DisableCgroups: scan, Grace: 10 * time.Millisecond})
			// Two at a time at most live, and each forks before it ends: there is always a process, and never the same.
			x := start(t, h, execution.Request{
				Command: `echo up; f() { (f) & }; trap '' TERM; (f) & wait`,
				Timeout: execution.Duration(300 * time.Millisecond),
			})
			finish(t, h, x.ID)
			until(t, "nothing is left", func() bool { return len(carriers(x.ID)) == 0 })
		})
	}
}

// carriers are the live processes with the id of an execution in their environment.
func carriers(id string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if env, err := os.ReadFile(file); err == nil && bytes.Contains(env, []byte("REPRISE_EXECUTION="+id)) {
			pids = append(pids, file)
		}
	}
	return pids
}

// smallDisk is a directory on a file system of 6 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skip("needs to mount a small file system: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk: the command waits until what it wrote was taken, and nothing is missing.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	log := newLog(t, memstore.New(nil), nil)
	work := t.TempDir()
	opts := execution.Options{RunsDir: filepath.Join(dir, "runs"), Dir: work}
	const lines = 3_000_000 // 20 MB
	leave(t, log, opts, func(h *execution.Host) {
		start(t, h, execution.Request{
			ID: "x", Retention: execution.Retention{MaxBytes: 1 << 30, MaxEvents: 1 << 20},
			Command: fmt.Sprintf("echo up; seq 1 %d; exit 3", lines),
		})
		await(t, h, "x", "up")
	})
	var free unix.Statfs_t
	until(t, "the disk is full",
		func() bool { return unix.Statfs(dir, &free) == nil && free.Bavail*uint64(free.Bsize) < 2<<20 })
	h := openHost(t, log, opts)
	x := finish(t, h, "x")
	wantOutcome(t, x, execution.Exited, 3, "")
	got := output(t, h, "x", execution.Stdout)
	if bytes.Count(got, []byte("\n")) != lines+1 || !bytes.HasSuffix(got, fmt.Appendf(nil, "\n%d\n", lines)) ||
		x.OutputTruncated {
		t.Errorf("%d bytes, %+v", len(got), x)
	}
}

// TestShortCommandsLeaveNothing: no file, process or socket, and no more supervisors than are kept idle.
func TestShortCommandsLeaveNothing(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	opts := execution.Options{RunsDir: t.TempDir(), MaxIdle: 4}
	h, err := execution.Open(t.Context(), log, &opts)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, h, "true")
	before := descriptors(t)
	rounds := 20
	if soaking {
		rounds = 2400
	}
	begun := time.Now()
	for i := range rounds {
		var ids []string
		for j := range 5 {
			ids = append(ids,
				start(t, h, execution.Request{ID: fmt.Sprintf("x%d-%d", i, j), Argv: []string{"true"}}).ID)
		}
		for _, id := range ids {
			wantOutcome(t, finish(t, h, id), execution.Exited, 0, "")
		}
	}
	took := time.Since(begun)
	t.Logf("%d commands in %v: %.0f a second", 5*rounds, took, float64(5*rounds)/took.Seconds())
	until(t, "the directories are removed", func() bool { return len(runDirs(t, opts)) == 0 })
	until(t, "the descriptors are closed", func() bool { return descriptors(t) <= before+opts.MaxIdle })
	until(t, "no more supervisors than may be idle",
		func() bool { return len(supervisorsOf(os.Getpid())) <= opts.MaxIdle })
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if left := supervisorsOf(os.Getpid()); len(left) != 0 {
		t.Errorf("supervisors %v are left", left)
	}
	if left, err := os.ReadDir(opts.RunsDir); err != nil || len(left) != 1 {
		t.Errorf("files %v are left, %v", left, err)
	}
}

// TestOneByteAWrite: every byte is there once, in order.
func TestOneByteAWrite(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("needs perl: ", err)
	}
	n := 100_000
	if soaking {
		n = 1_000_000
	}
	h := newHost(t, execution.Options{RunsDir: t.TempDir()})
	x := start(t, h, execution.Request{
		Argv:      []string{"perl", "-e", fmt.Sprintf(`syswrite(STDOUT, chr(97 + $_ %% 26)) for 0 .. %d`, n-1)},
		Retention: execution.Retention{MaxBytes: 1 << 30, MaxEvents: 1 << 20},
	})
	x = finish(t, h, x.ID)
	wantOutcome(t, x, execution.Exited, 0, "")
	got := output(t, h, x.ID, execution.Stdout)
	for i, b := range got {
		if b != byte('a'+i%26) {
			t.Fatalf("byte %d is %q", i, b)
		}
	}
	if len(got) != n {
		t.Errorf("%d bytes, want %d", len(got), n)
	}
}

// TestMuchOutput: more than the spool holds, while nobody takes it for a while.
func TestMuchOutput(t *testing.T) {
	lines := 6_000_000 // 46 MB
	if soaking {
		lines = 200_000_000 // 2 GB
	}
	log := newLog(t, memstore.New(nil), nil)
	opts := execution.Options{RunsDir: t.TempDir(), SpoolBytes: 17 << 20}
	leave(t, log, opts, func(h *execution.Host) {
		start(t, h, execution.Request{ID: "x", Command: fmt.Sprintf("echo up; seq 1 %d; exit 3", lines)})
		await(t, h, "x", "up")
	})
	size := func() (sum int64) {
		for _, dir := range runDirs(t, opts) {
			names, _ := filepath.Glob(filepath.Join(dir, "*.spool"))
			for _, name := range names {
				if info, err := os.Stat(name); err == nil {
					sum += info.Size()
				}
			}
		}
		return sum
	}
	until(t, "the spool is full", func() bool { return size() > opts.SpoolBytes-1<<20 })
	most := size()
	h := openHost(t, log, opts)
	s, err := h.Stream(within(t), tenant, "x")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(within(t))
	for err == nil && info.End == nil {
		most = max(most, size())
		<-time.After(10 * time.Millisecond)
		info, err = s.Info(t.Context())
	}
	x, err := h.Show(within(t), tenant, "x")
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, x, execution.Exited, 3, "")
	want := int64(len("up\n"))
	for digits, first := 1, 1; first <= lines; digits, first = digits+1, first*10 {
		want += int64(min(lines+1, first*10)-first) * int64(digits+1)
	}
	if x.Bytes.Stdout != want || x.OutputTruncated {
		t.Errorf("%d bytes, want %d; %+v", x.Bytes.Stdout, want, x)
	}
	if most > opts.SpoolBytes+16<<20 {
		t.Errorf("the spool took %d bytes, its bound is %d", most, opts.SpoolBytes)
	}
}

// supervisorsOf are the supervisors that a process has started.
func supervisorsOf(parent int) (pids []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, _ := os.ReadFile(file)
		line, _ := os.ReadFile(strings.TrimSuffix(file, "stat") + "cmdline")
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) &&
			strings.HasPrefix(string(line), "reprise-supervisor") {
			pids = append(pids, file)
		}
	}
	return pids
}

// removedWhileAway leaves the execution x running, with the processes pids, and removes its stream.
func removedWhileAway(t *testing.T) (log *reprise.Log, opts execution.Options, pids []int) {
	t.Helper()
	log, opts = newLog(t, memstore.New(nil), nil), execution.Options{RunsDir: t.TempDir()}
	leave(t, log, opts, func(h *execution.Host) {
		start(t, h, execution.Request{ID: "x", Command: treeCommand})
		pids = children(await(t, h, "x", "up"))
	})
	if err := log.Remove(t.Context(), reprise.StreamKey{Tenant: tenant, Name: "execution:x"}); err != nil {
		t.Fatal(err)
	}
	return log, opts, pids
}

// TestRemovedWhileAway: the stream of a run was removed while no server was there. Its command is ended.
func TestRemovedWhileAway(t *testing.T) {
	log, opts, pids := removedWhileAway(t)
	h := openHost(t, log, opts)
	for _, pid := range pids {
		until(t, "the processes are gone", func() bool { return !alive(pid) })
	}
	until(t, "the directory is removed", func() bool { return len(runDirs(t, opts)) == 0 })
	if _, err := h.Show(within(t), tenant, "x"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("show: %v", err)
	}
}

// TestReplicaComesBack: one that leaves its commands running and comes back under another name before it is taken for
// dead goes on with them, also with one that says nothing for longer than that. One that comes too late ends them.
func TestReplicaComesBack(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	other := &node{store: newCuttable(hub.Store())}
	other.open(t, &replica.Options{Name: "other", Beat: testBeat, TTL: longTTL}, execution.Options{})
	opts := execution.Options{RunsDir: t.TempDir()}
	incarnation := func() *node {
		nd := &node{store: newCuttable(hub.Store())}
		nd.open(t, &replica.Options{Name: "back", Beat: testBeat, TTL: longTTL}, opts)
		return nd
	}
	gone := func(nd *node) {
		if left, err := nd.Leave(); err != nil || left != 1 {
			t.Fatalf("%d runs are left, %v", left, err)
		}
		nd.member.Vanish()
	}
	nd := incarnation()
	start(t, nd.Host,
		execution.Request{ID: "x", StdinOpen: true, Command: `echo up; while read line; do echo "$line"; done; exit 4`})
	await(t, other.Host, "x", "up")
	for i := range 2 {
		name := nd.member.Name()
		gone(nd)
		nd = incarnation()
		other.buries(t, name)
		line := fmt.Sprintln("line", i)
		if _, err := other.WriteStdin(within(t), tenant, "x", execution.StdinWrite{
			Offset: -1,
			Data:   strings.NewReader(line),
		}); err != nil {
			t.Fatal(err)
		}
		await(t, other.Host, "x", line)
	}
	if _, err := other.WriteStdin(within(t), tenant, "x", execution.StdinWrite{Offset: -1, EOF: true}); err != nil {
		t.Fatal(err)
	}
	x := finish(t, other.Host, "x")
	wantOutcome(t, x, execution.Exited, 4, "")
	got := string(output(t, other.Host, "x", execution.Stdout))
	if got != "up\nline 0\nline 1\n" || x.Bytes.Stdout != int64(len(got)) || x.OutputTruncated {
		t.Errorf("output %q, %+v", got, x)
	}

	start(t, nd.Host, execution.Request{ID: "late", Command: treeCommand})
	pids := children(await(t, other.Host, "late", "up"))
	name := nd.member.Name()
	gone(nd)
	other.buries(t, name)
	wantOutcome(t, finish(t, other.Host, "late"), execution.Lost, -1, "")
	incarnation()
	for _, pid := range pids {
		until(t, "the processes are gone", func() bool { return !alive(pid) })
	}
	until(t, "the directories are removed", func() bool { return len(runDirs(t, opts)) == 0 })
	follow(t, other.Host, "late") // one end, and nothing behind it
}
