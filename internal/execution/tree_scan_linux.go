package execution

import (
	"maps"
	"syscall"
	"time"
)

// scanTree finds the processes of a run in /proc: those of its session or group, their
// descendants, and those that carry its mark in their environment. A process
// escapes only if it leaves the session, its parent dies, and it has cleared
// its environment.
type scanTree struct {
	mark  string // "REPRISE_EPOCH=..."
	first process
}

func newScanTree(mark string) *scanTree { return &scanTree{mark: mark} }

func (t *scanTree) prepare(*syscall.SysProcAttr) {}

func (t *scanTree) started(pid int) {
	t.first, _ = readProcess(pid)
	t.first.pid = pid
}

// members are the live processes of the tree. The first one comes first, so that it is
// killed itself and does not end because of what happens to its children.
func (t *scanTree) members() []process {
	if t.first.pid == 0 {
		return nil
	}
	all := readProcesses()
	in := make(map[int]bool)
	for pid, p := range all {
		in[pid] = pid == t.first.pid || p.session == t.first.pid || p.group == t.first.pid
	}
	addDescendants(all, in)
	for pid, p := range all {
		if !in[pid] && !p.dead && p.start >= t.first.start && hasVariable(pid, t.mark) {
			in[pid] = true
		}
	}
	addDescendants(all, in)
	var members []process
	if first, ok := all[t.first.pid]; ok && !first.dead {
		members = append(members, first)
	}
	for pid, p := range all {
		if in[pid] && !p.dead && pid != t.first.pid {
			members = append(members, p)
		}
	}
	return members
}

// addDescendants puts into in whatever descends from what is in it.
func addDescendants(all map[int]process, in map[int]bool) {
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if !in[pid] && in[p.parent] {
				in[pid], grown = true, true
			}
		}
	}
}

func (t *scanTree) terminate() { terminate(t.members()) }

func terminate(members []process) {
	for _, p := range members {
		if isWrapper(p.pid) {
			continue // it ends with the command
		}
		p.send(syscall.SIGTERM)
		p.send(syscall.SIGCONT)
	}
}

// kill goes over the tree until it is empty: a process may fork while we look. One that is ending has no
// environment any more by which it could be found.
func (t *scanTree) kill() (others int) {
	killed := make(map[int]process)
	for deadline := time.Now().Add(killPatience); ; {
		members := t.members()
		for _, p := range members {
			p.send(syscall.SIGKILL)
			killed[p.pid] = p
		}
		maps.DeleteFunc(killed, func(pid int, p process) bool {
			now, ok := readProcess(pid)
			return !ok || now.dead || now.start != p.start
		})
		if len(members)+len(killed) == 0 || time.Now().After(deadline) {
			return others
		}
		n := len(members)
		for _, p := range members {
			if p.pid == t.first.pid {
				n--
			}
		}
		others = max(others, n)
		time.Sleep(time.Millisecond)
	}
}

func (t *scanTree) usage() treeUsage { return usageOf(t.members()) }

func usageOf(members []process) (u treeUsage) {
	for _, p := range members {
		u.processes++
		u.memoryBytes += p.rss
		u.user += p.user
		u.sys += p.sys
		u.maxRSS = max(u.maxRSS, peakRSS(p.pid))
	}
	return u
}

func (t *scanTree) enforce(Limits, *Isolation) {}
func (t *scanTree) kind() string               { return "scan" }
func (t *scanTree) exceeded() string           { return "" }
func (t *scanTree) close()                     {}

// killMarked kills whatever carries one of the marks: what dead servers left behind.
func killMarked(marks []string) {
	if len(marks) == 0 {
		return
	}
	for deadline := time.Now().Add(killPatience); time.Now().Before(deadline); {
		left := 0
		for _, p := range readProcesses() {
			if p.dead {
				continue
			}
			for _, mark := range marks {
				if hasVariable(p.pid, mark) {
					p.send(syscall.SIGKILL)
					left++
					break
				}
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
