package command

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reprise/internal/isolation"
	"reprise/internal/procfs"
)

// reaper waits for the orphans that a supervisor adopts as the subreaper of its command, so that none stays a zombie.
type reaper struct {
	mu    sync.Mutex
	first int // the command, which is reaped by its starter; 0 if there is none
	// ended is closed when the command has ended; nil if that is known, or if there is no command.
	ended chan struct{}
	// user and sys are the CPU time of the orphans that were reaped since watch.
	user, sys time.Duration
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

// watch begins: the command itself is not ours to reap. The result is closed when it has ended.
func (r *reaper) watch(first int) (ended <-chan struct{}) {
	r.mu.Lock()
	r.first, r.ended = first, make(chan struct{})
	r.user, r.sys = 0, 0
	ended = r.ended
	r.mu.Unlock()
	r.reap()
	return ended
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
		if pid == r.first && r.ended != nil {
			close(r.ended)
			r.ended = nil
		}
		if pid == 0 || pid == r.first {
			return
		}
		var usage unix.Rusage
		if reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, &usage); err == nil && reaped == pid {
			r.user += time.Duration(usage.Utime.Nano())
			r.sys += time.Duration(usage.Stime.Nano())
		}
	}
}

// used is the CPU time of the orphans that were reaped.
func (r *reaper) used() (user, sys time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.user, r.sys
}

// childOf is the process that a Siginfo of waitid is about, 0 for none.
func childOf(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), sigchldPID)))
}

// sigchldPID is the offset of the process id in a siginfo_t for SIGCHLD on 64-bit Linux.
const sigchldPID = 16

// forget ends what watch began, once the command was reaped. It reports whether a child is left that lives.
func (r *reaper) forget() (left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = 0
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR: //nolint:errorlint // an errno
		case err != nil:
			return false
		case pid == 0:
			return true
		}
	}
}

// descendants are the processes of a command that the supervisor has started: whatever descends from the supervisor,
// which adopts every orphan among them. None can leave.
type descendants struct {
	bareTree
	first  int
	reaper *reaper
	// table: the command has a process table of its own. Its first process adopts the orphans then. It is no process of
	// the command, and ends with the command.
	table bool
}

func (t *descendants) started(pid int) { t.first = pid }

// members are the live descendants, the first process before all others.
func (t *descendants) members() []procfs.Process {
	members, _ := t.look()
	return members
}

// look returns the members, and the processes that count by their time alone: the zombies, and the first process of a
// process table.
func (t *descendants) look() (members, zombies []procfs.Process) {
	seen := map[int]bool{}
	adopter := t.table
	for level := childrenOf(os.Getpid()); len(level) > 0; adopter = false {
		var below []int
		for _, pid := range level {
			p, ok := procfs.Read(pid)
			if seen[pid] || !ok {
				continue
			}
			seen[pid] = true
			below = append(below, childrenOf(pid)...)
			if adopter && pid != t.first {
				zombies = append(zombies, p) // its time is the time of the orphans that it has reaped
				continue
			}
			if p.Dead {
				zombies = append(zombies, p)
				continue
			}
			members = append(members, p)
			if pid == t.first {
				last := len(members) - 1
				members[0], members[last] = members[last], members[0]
			}
		}
		level = below
	}
	return members, zombies
}

// childrenOf returns the children of a process. The result is not a snapshot: a child that ends meanwhile may hide
// another one.
func childrenOf(pid int) (children []int) {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	dir, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(-1)
	for _, thread := range threads {
		text, err := os.ReadFile(tasks + "/" + thread + "/children")
		if errors.Is(err, fs.ErrNotExist) && !hasChildrenFiles() {
			return scanChildren(pid)
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// hasChildrenFiles reports whether the kernel was built with CONFIG_PROC_CHILDREN, as nearly all are.
var hasChildrenFiles = sync.OnceValue(func() bool {
	_, err := os.Stat("/proc/thread-self/children")
	return err == nil
})

// scanChildren is childrenOf for other kernels.
func scanChildren(pid int) (children []int) {
	for _, p := range procfs.All() {
		if p.Parent == pid {
			children = append(children, p.PID)
		}
	}
	return children
}

func (t *descendants) terminate() { terminate(t.members) }

const (
	// treePatience limits how long kill continues on a tree that keeps growing.
	treePatience = 10 * time.Second
	// stopAfter is the round from which on kill stops processes before it kills them, so that none forks meanwhile.
	stopAfter = 3
)

// kill goes over the tree until it is empty.
// A process that is adopted while we look may be missed, but not by close.
func (t *descendants) kill() (others killed) {
	deadline := time.Now().Add(treePatience)
	for round := 1; ; round++ {
		members := t.members()
		if len(members) == 0 || time.Now().After(deadline) {
			return others
		}
		if others.processes == 0 {
			others = toKill(members, t.first)
		}
		for _, p := range members {
			if round > stopAfter {
				p.Send(syscall.SIGSTOP)
			}
		}
		if round > stopAfter {
			members = append(members, t.members()...) // those that were forked while we stopped them
		}
		for _, p := range members {
			p.Send(syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

func (t *descendants) usage() treeUsage {
	user, sys := t.reaper.used() // first: what is reaped meanwhile must not count twice
	members, zombies := t.look()
	u := usageOf(members)
	for _, p := range zombies {
		user, sys = user+p.User, sys+p.Sys
	}
	u.user, u.sys = u.user+user, u.sys+sys
	return u
}

func (t *descendants) kind() string { return "subreaper" }

// reapedTree is the tree of a supervisor's command, found by its cgroup or as descendants. In both cases, processes
// that have left the cgroup are ended too.
type reapedTree struct {
	tree
	reaper *reaper
	ended  <-chan struct{} // closed when the command has ended
	below  descendants
	// sealed is set if no process can leave the cgroup, or if there is none. It is also set at the end, since close
	// ends those that have left: so a short command looks for none.
	sealed bool
}

func (t *reapedTree) enforce(limits Limits, in *Isolation) {
	t.tree.enforce(limits, in)
	_, inCgroup := t.tree.(*cgroupTree)
	t.sealed = !inCgroup || in.Layers.Cgroups == isolation.ReadOnly
}

// strays are the live descendants that have left the cgroup.
func (t *reapedTree) strays() []procfs.Process {
	group, ok := t.tree.(*cgroupTree)
	if !ok || t.sealed {
		return nil
	}
	all := t.below.members() // first: what is forked meanwhile is no stray
	inside := make(map[int]bool)
	for _, p := range group.members() {
		inside[p.PID] = true
	}
	return slices.DeleteFunc(all, func(p procfs.Process) bool { return inside[p.PID] })
}

func (t *reapedTree) terminate() {
	strays := t.strays()
	t.tree.terminate()
	terminate(func() []procfs.Process { return strays })
}

func (t *reapedTree) kill() (others killed) {
	others = t.tree.kill()
	if !t.sealed {
		others = others.and(t.below.kill())
	}
	return others
}

// usage counts the CPU time of a stray before it left twice.
func (t *reapedTree) usage() treeUsage {
	u, s := t.tree.usage(), usageOf(t.strays())
	u.processes += s.processes
	u.memoryBytes += s.memoryBytes
	u.user += s.user
	u.sys += s.sys
	u.maxRSS = max(u.maxRSS, s.maxRSS)
	return u
}

// seal is called when the command has ended and its output was read.
func (t *reapedTree) seal() { t.sealed = true }

func (t *reapedTree) started(pid int) {
	t.tree.started(pid)
	t.below.started(pid)
	t.ended = t.reaper.watch(pid)
}

// await waits for the end of the command without a thread of its own.
func (t *reapedTree) await() { <-t.ended }

// close ends whatever is left. The kernel says for certain when that is nothing: a descendant has an ancestor that is a
// child of ours.
func (t *reapedTree) close() (left bool) {
	for deadline := time.Now().Add(treePatience); ; {
		left = t.reaper.forget()
		if !left || time.Now().After(deadline) {
			break
		}
		if t.below.kill().processes == 0 { // what is left is not to be found at the moment
			time.Sleep(time.Millisecond)
		}
	}
	t.tree.close()
	return left
}
