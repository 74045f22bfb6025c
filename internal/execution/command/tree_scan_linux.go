package command

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
	bareTree
	mark  string // "REPRISE_EPOCH=..."
	first process
}

// WithoutCgroups is how a server describes its process tracking.
const WithoutCgroups = "no cgroups: processes are found in /proc"

func newScanTree(mark string) *scanTree { return &scanTree{mark: mark} }

func (t *scanTree) started(pid int) {
	t.first, _ = readProcess(pid)
	t.first.pid = pid
}

// members are the live processes of the tree. The first one comes first, so that it is
// killed itself and does not end because of what happens to its children.
func (t *scanTree) members() []process {
	members, _ := t.look()
	return members
}

// look returns the members, and whether it is certain that there are no others.
func (t *scanTree) look() (members []process, certain bool) {
	if t.first.pid == 0 {
		return nil, true
	}
	certain = true
	all := readProcesses()
	in := make(map[int]bool)
	for pid, p := range all {
		in[pid] = pid == t.first.pid || p.session == t.first.pid || p.group == t.first.pid
	}
	addDescendants(all, in)
	for pid, p := range all {
		if in[pid] || p.dead || p.start < t.first.start {
			continue
		}
		has, known := hasVariable(pid, t.mark)
		in[pid] = has
		certain = certain && known
	}
	addDescendants(all, in)
	if first, ok := all[t.first.pid]; ok && !first.dead {
		members = append(members, first)
	}
	for pid, p := range all {
		if in[pid] && !p.dead && pid != t.first.pid {
			members = append(members, p)
		}
	}
	return members, certain
}

// addDescendants adds to in all descendants of its members.
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

func (t *scanTree) terminate() { terminate(t.members) }

// terminate sends TERM and CONT to the members, and to those that were forked meanwhile. A process forks no more once a
// signal waits for it, so that the second look finds all that the first one could miss.
func terminate(members func() []process) {
	sent := map[int]bool{}
	for range 2 {
		for _, p := range members() {
			if sent[p.pid] {
				continue
			}
			sent[p.pid] = true
			p.send(syscall.SIGTERM)
			p.send(syscall.SIGCONT)
		}
	}
}

func (t *scanTree) kill() (others killed) {
	killAll(func() ([]process, bool) {
		members, certain := t.look()
		if others.processes == 0 {
			others = toKill(members, t.first.pid)
		}
		return members, certain
	})
	return others
}

// killAll kills the processes that look finds until certainly none is left: a process may fork while look runs. An
// ending process has no environment by which look could find it.
func killAll(look func() (found []process, certain bool)) {
	killed := make(map[int]process)
	for deadline := time.Now().Add(killPatience); ; time.Sleep(time.Millisecond) {
		found, certain := look()
		for _, p := range found {
			p.send(syscall.SIGKILL)
			killed[p.pid] = p
		}
		maps.DeleteFunc(killed, func(pid int, p process) bool {
			now, ok := readProcess(pid)
			return !ok || now.dead || now.start != p.start
		})
		if certain && len(found)+len(killed) == 0 || time.Now().After(deadline) {
			return
		}
	}
}

func (t *scanTree) usage() treeUsage { return usageOf(t.members()) }

func usageOf(members []process) (u treeUsage) {
	for _, p := range members {
		u.processes++
		u.memoryBytes += p.rss
		u.user += p.user
		u.sys += p.sys
		u.maxRSS = max(u.maxRSS, p.peakRSS())
	}
	return u
}

func (t *scanTree) kind() string { return "scan" }

// KillMarked kills whatever carries one of the marks: what dead servers left behind.
func KillMarked(marks []string) {
	if len(marks) == 0 {
		return
	}
	killAll(func() (found []process, certain bool) {
		certain = true
		for _, p := range readProcesses() {
			if p.dead {
				continue
			}
			for _, mark := range marks {
				has, known := hasVariable(p.pid, mark)
				certain = certain && known
				if has {
					found = append(found, p)
					break
				}
			}
		}
		return found, certain
	})
}
