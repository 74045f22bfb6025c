package command

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"reprise/internal/isolation"
	"reprise/internal/procfs"
	"reprise/internal/spawn"
)

func TestOwnCgroup(t *testing.T) {
	const v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct{ mounts, self, want string }{
		"root":    {v2, "0::/\n", "/sys/fs/cgroup"},
		"service": {v2, "0::/system.slice/reprise.service\n", "/sys/fs/cgroup/system.slice/reprise.service"},
		"hybrid": {
			"31 2 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n",
			"9:name=systemd:/x\n0::/a\n", "/sys/fs/cgroup/unified/a",
		},
		"container": {
			"30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/abc/inner\n",
			"/sys/fs/cgroup/inner",
		},
		"outside":  {"30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/other\n", ""},
		"escaped":  {`30 23 0:26 / /mnt/a\040b rw - cgroup2 cgroup2 rw` + "\n", "0::/\n", "/mnt/a b"},
		"v1 alone": {"30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "4:cpu:/\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mounts, self := filepath.Join(dir, "mountinfo"), filepath.Join(dir, "cgroup")
			for file, text := range map[string]string{mounts: c.mounts, self: c.self} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ownCgroup(mounts, self)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// TestDeadHostsCgroupsAreRemoved leaves what a killed server would, with a process in it.
func TestDeadHostsCgroupsAreRemoved(t *testing.T) {
	s := spawn.New()
	defer s.Close()
	sys := System{Spawner: s}
	dead, err := openCgroups(s)
	if err != nil {
		t.Logf("there are no cgroups here: %v", err)
		return
	}
	tree, err := dead.newTree("run")
	if err != nil {
		t.Fatal(err)
	}
	c, err := sys.startChild(&Plan{Argv: []string{"sleep", "1000"}, Cwd: "/", Environ: os.Environ()}, tree)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	alive, err := openCgroups(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tree.dir); err != nil {
		t.Errorf("a folder that is in use was removed: %v", err)
	}
	alive.close()
	_ = dead.lock.Close() // as when its process dies
	again, err := openCgroups(s)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if _, err := os.Stat(dead.dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a dead server is there: %v", err)
	}
	c.await()
	if x, err := c.reap(); err != nil || x.signal == nil || *x.signal != "KILL" {
		t.Errorf("its process ended with %+v, %v", x, err)
	}
	_ = tree.fd.Close()
}

// TestScanFindsWhatExecutes lets processes that have left their session and lost their parent replace themselves
// all the time: in the middle of that the kernel shows no environment by which they could be found.
func TestScanFindsWhatExecutes(t *testing.T) {
	mark := "REPRISE_EPOCH=" + rand.Text()
	first := exec.Command("true")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	tree := newScanTree(mark)
	tree.started(first.Process.Pid)
	_ = first.Wait()
	for range 8 {
		// Enough variables that they do not come with one small read, and so many that the kernel takes a while
		// to lay them out: meanwhile it shows an environment that is empty.
		loop := exec.Command("sh", "-c", `eval "$LOOP"`)
		loop.Env = []string{"LOOP=" + `exec sh -c 'eval "$LOOP"'`, "PADDING=" + strings.Repeat("x", 1000), mark}
		for i := range 500 {
			loop.Env = append(loop.Env, fmt.Sprintf("V%d=%d", i, i))
		}
		loop.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := loop.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			_ = loop.Wait()
			close(ended)
		}()
		for range 12 {
			if members, certain := tree.look(); certain && len(members) == 0 {
				t.Error("a process was overlooked that executes itself")
			}
		}
		if tree.kill(); len(tree.members()) > 0 {
			t.Error("killed, and there")
		}
		if p, ok := procfs.Read(loop.Process.Pid); ok && !p.Dead {
			t.Error("kill has left a process behind")
			_ = loop.Process.Kill()
		}
		<-ended
	}
}

func TestIncompleteRune(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "€": 0, "😀": 0, "a\xc3": 1, "\xe2": 1, "\xe2\x82": 2, "\xf0\x9f\x98": 3,
		"\x80\x80\x80\x80": 0, "\xff": 0, "\xe2a": 0, "a\xf0": 1, "\xc0": 0, "\xed\xa0": 0,
	} {
		if got := incompleteRune([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestKernelHoldsLimits looks at what is written to the files of a cgroup with controllers, and at
// what is made of what the kernel says there, in a folder that stands for one.
func TestKernelHoldsLimits(t *testing.T) {
	dir := t.TempDir()
	tree := &cgroupTree{dir: dir, groups: &cgroups{memory: true, pids: true}}
	in := isolate(tree, &isolation.Plan{Level: isolation.Limits},
		Limits{MemoryBytes: 1 << 20, Processes: 7, CPUTime: 1})
	want := Isolation{
		Level: string(isolation.Limits), Kill: "cgroup", Memory: heldByKernel, Processes: heldByKernel,
		CPU: heldBySamples,
	}
	if *in != want {
		t.Errorf("in force: %+v, want %+v", *in, want)
	}
	for file, want := range map[string]string{
		"memory.max": "1048576", "pids.max": "7", "memory.swap.max": "0", "memory.oom.group": "1",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", file, got, err, want)
		}
	}
	for _, step := range []struct{ file, text, want string }{
		{"memory.events", "low 0\noom 1\noom_kill 0\n", ""},
		{"pids.events", "max 0\n", ""},
		{"pids.events", "max 3\n", limitProcesses},
		{"memory.events", "low 0\noom 1\noom_kill 2\n", limitMemory},
	} {
		if err := os.WriteFile(filepath.Join(dir, step.file), []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := tree.exceeded(); got != step.want {
			t.Errorf("after %s %q: %q, want %q", step.file, step.text, got, step.want)
		}
	}
	// The OOM killer of the machine, and the limit of a group above, count there too.
	unlimited := &cgroupTree{dir: dir, groups: tree.groups}
	isolate(unlimited, &isolation.Plan{Level: isolation.Limits}, Limits{})
	if got := unlimited.exceeded(); got != "" {
		t.Errorf("without limits: %q", got)
	}
}

// TestTerminateReachesWhatIsForkedMeanwhile: a second look finds what the first one misses while it is being forked.
func TestTerminateReachesWhatIsForkedMeanwhile(t *testing.T) {
	var commands []*exec.Cmd
	var all []procfs.Process
	for range 2 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, _ := procfs.Read(cmd.Process.Pid)
		commands, all = append(commands, cmd), append(all, p)
	}
	looks := 0
	terminate(func() []procfs.Process {
		looks++
		return all[:looks]
	})
	for i, cmd := range commands {
		_ = cmd.Wait()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
			t.Errorf("process %d ended as %v", i, cmd.ProcessState)
		}
	}
}
