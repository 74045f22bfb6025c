package execution

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper waits for the orphans that a supervisor adopts as the subreaper of its command, so that none stays a zombie.
type reaper struct {
	mu    sync.Mutex
	first int // the command, which is reaped by who has started it; 0 while there is none
}

func newReaper() *reaper {
	r := &reaper{}
	dead := make(chan os.Signal, 1)
	signal.Notify(dead, syscall.SIGCHLD)
	go func() {
		for range dead {
			r.reap()
		}
	}()
	return r
}

// watch begins: the command itself is not ours to reap.
func (r *reaper) watch(first int) {
	r.mu.Lock()
	r.first = first
	r.mu.Unlock()
	r.reap()
}

// reap takes zombies. One that comes behind the ended command itself is left until forget.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.first != 0 {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != nil {
			return
		}
		pid := childOf(&info)
		if pid == 0 || pid == r.first {
			return
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// childOf is the process that a Siginfo of waitid is about, 0 for none.
func childOf(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), sigchldPID)))
}

// sigchldPID is where the process id is in a siginfo_t for SIGCHLD on 64-bit Linux.
const sigchldPID = 16

// forget ends what watch began, once the command was reaped.
func (r *reaper) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = 0
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != nil || pid == 0 {
			return
		}
	}
}

// descendants are the processes of a command that the supervisor has started: whatever descends from the supervisor, which
// adopts every orphan among them. None can leave.
type descendants struct{ first int }

func (t *descendants) prepare(*syscall.SysProcAttr) {}
func (t *descendants) started(pid int)              { t.first = pid }

// members are the live descendants, the first process before all others.
func (t *descendants) members() []process {
	all := readProcesses()
	in := map[int]bool{os.Getpid(): true}
	addDescendants(all, in)
	delete(in, os.Getpid())
	var members []process
	if first, ok := all[t.first]; ok && !first.dead && in[t.first] {
		members = append(members, first)
	}
	for pid, p := range all {
		if in[pid] && !p.dead && pid != t.first {
			members = append(members, p)
		}
	}
	return members
}

func (t *descendants) terminate() { terminate(t.members()) }

const (
	// treePatience is how long kill goes on over a tree that grows all the time.
	treePatience = 10 * time.Second
	// stopAfter is the round from which on kill stops processes before it kills them, so that none forks meanwhile.
	stopAfter = 3
)

// kill goes over the tree until it is empty.
func (t *descendants) kill() (others int) {
	deadline := time.Now().Add(treePatience)
	for round := 1; ; round++ {
		members := t.members()
		if len(members) == 0 || time.Now().After(deadline) {
			return others
		}
		n := 0
		for _, p := range members {
			if round > stopAfter {
				p.send(syscall.SIGSTOP)
			}
			if p.pid != t.first {
				n++
			}
		}
		others = max(others, n)
		if round > stopAfter {
			members = append(members, t.members()...) // those that were forked while we stopped them
		}
		for _, p := range members {
			p.send(syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

func (t *descendants) usage() treeUsage           { return usageOf(t.members()) }
func (t *descendants) enforce(Limits, *Isolation) {}
func (t *descendants) kind() string               { return "subreaper" }
func (t *descendants) exceeded() string           { return "" }
func (t *descendants) close()                     {}

// reapedTree is the tree of a command of a supervisor: one that is found by its cgroup, or as descendants. Either way what has
// left the cgroup is ended too.
type reapedTree struct {
	tree
	reaper *reaper
	below  descendants
}

func (t *reapedTree) started(pid int) {
	t.tree.started(pid)
	t.below.started(pid)
	t.reaper.watch(pid)
}

func (t *reapedTree) kill() (others int) {
	others = t.tree.kill()
	if t.kind() == "cgroup" { // root may have moved a process out of it
		others = max(others, t.below.kill())
	}
	return others
}

func (t *reapedTree) close() {
	t.reaper.forget()
	t.tree.close()
}
