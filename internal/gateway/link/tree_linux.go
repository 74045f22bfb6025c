package link

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience limits how long killTree waits until processes are gone.
const killPatience = 2 * time.Second

// running is a live process as /proc/<pid>/stat describes it; see proc_pid_stat(5).
type running struct {
	pid, parent, group, session int
	start                       string // pid and start identify a process uniquely
	headless                    bool   // its first thread has ended, and others go on
}

func readRunning(pid int) (running, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return running{}, false
	}
	// The name, in parentheses, may hold anything, parentheses too.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return running{}, false
	}
	number := func(i int) int { // i as the manual counts
		n, _ := strconv.Atoi(fields[i-3])
		return n
	}
	zombie := fields[0] == "Z" || fields[0] == "X"
	return running{
		pid: pid, parent: number(4), group: number(5), session: number(6), start: fields[22-3], headless: zombie,
	}, !zombie || number(20) > 1
}

// readAllRunning returns the live processes by pid. The result is not a snapshot: processes may start and end
// meanwhile.
func readAllRunning() map[int]running {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := map[int]running{}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			if p, ok := readRunning(pid); ok {
				all[pid] = p
			}
		}
	}
	return all
}

// marked reports whether p was started with a mark that begins with prefix.
func (p running) marked(prefix string) bool {
	threads := []string{"/proc/" + strconv.Itoa(p.pid)}
	if p.headless { // the environment is shown for the other threads alone
		threads, _ = filepath.Glob(threads[0] + "/task/*")
	}
	for _, thread := range threads {
		env, _ := os.ReadFile(thread + "/environ")
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if strings.HasPrefix(string(entry), markName+"="+prefix) {
				return true
			}
		}
	}
	return false
}

// treeOf returns the live processes of an upstream: those in the session or group led by first, those with its mark in
// their environment, and the descendants of all of these. A process escapes only if it leaves the session, its parent
// dies, and it has cleared its environment.
func treeOf(first int, mark string) []running {
	all := readAllRunning()
	in := map[int]bool{}
	for pid, p := range all {
		if p.isLedBy(first) || p.marked(mark) {
			in[pid] = true
		}
	}
	addDescendants(in, all)
	var tree []running
	for pid := range in {
		tree = append(tree, all[pid])
	}
	return tree
}

// isLedBy reports whether p is first, or of its session or group. No process is led by 0.
func (p running) isLedBy(first int) bool {
	return first > 0 && (p.pid == first || p.session == first || p.group == first)
}

// addDescendants adds to in the descendants of the processes in it.
func addDescendants(in map[int]bool, all map[int]running) {
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if !in[pid] && in[p.parent] {
				in[pid], grown = true, true
			}
		}
	}
}

// signal sends a signal to this process, and to no other that has got its number since.
func (p running) signal(s unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := readRunning(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// terminateTree sends TERM to every process, then CONT, because a stopped process does not see TERM.
func terminateTree(first int, mark string) {
	for _, p := range treeOf(first, mark) {
		p.signal(unix.SIGTERM)
		p.signal(unix.SIGCONT)
	}
}

// killTree kills the tree until it is empty: a process may fork while it is looked for. It reports whether none is
// left.
func killTree(first int, mark string) bool {
	for deadline := time.Now().Add(killPatience); ; time.Sleep(time.Millisecond) {
		tree := treeOf(first, mark)
		if len(tree) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		for _, p := range tree {
			p.signal(unix.SIGKILL)
		}
	}
}

// KillMarked kills the processes whose Command.Mark begins with mark and a slash, and all that they have started. It
// reports whether none is left.
func KillMarked(mark string) bool { return killTree(0, mark+"/") }
