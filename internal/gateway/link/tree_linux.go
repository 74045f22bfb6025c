package link

import (
	"os"
	"strings"
	"syscall"
	"time"

	"reprise/internal/procfs"
)

// killPatience limits how long killTree waits until processes are gone.
const killPatience = 2 * time.Second

// marked reports whether a process was started with a mark that begins with prefix.
func marked(pid int, prefix string) bool {
	has, _ := procfs.HasVariable(pid, func(entry string) bool { return strings.HasPrefix(entry, markName+"="+prefix) })
	return has
}

// treeOf returns the live processes of an upstream: those in the session or group led by first, those with its mark in
// their environment, and the descendants of all of these. A process escapes only if it leaves the session, its parent
// dies, and it has cleared its environment.
func treeOf(first int, mark string) (tree []procfs.Process) {
	all := procfs.All()
	delete(all, os.Getpid())
	in := map[int]bool{}
	for pid, p := range all {
		in[pid] = isLedBy(p, first) || marked(pid, mark)
	}
	procfs.AddDescendants(all, in)
	for pid, p := range all {
		if in[pid] && !p.Dead {
			tree = append(tree, p)
		}
	}
	return tree
}

// isLedBy reports whether p is first, or of its session or group. No process is led by 0.
func isLedBy(p procfs.Process, first int) bool {
	return first > 0 && (p.PID == first || p.Session == first || p.Group == first)
}

// terminateTree sends TERM to every process, then CONT, because a stopped process does not see TERM.
func terminateTree(first int, mark string) {
	for _, p := range treeOf(first, mark) {
		p.Send(syscall.SIGTERM)
		p.Send(syscall.SIGCONT)
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
			p.Send(syscall.SIGKILL)
		}
	}
}

// KillMarked kills the processes whose Command.Mark begins with mark and a slash, and all that they have started. It
// reports whether none is left.
func KillMarked(mark string) bool { return killTree(0, mark+"/") }
