package command

import (
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"reprise/internal/procfs"
)

// scanTree finds the processes of a run in /proc: members of its session or group, their
// descendants, and those that carry its mark in their environment. A process
// escapes only if it leaves the session, its parent dies, and it has cleared
// its environment.
type scanTree struct {
	bareTree
	mark  string // "REPRISE_EPOCH=..."
	first procfs.Process
}

// WithoutCgroups is how a server describes its process tracking.
const WithoutCgroups = "no cgroups: processes are found in /proc"

func newScanTree(mark string) *scanTree { return &scanTree{mark: mark} }

func (t *scanTree) started(pid int) {
	t.first, _ = procfs.Read(pid)
	t.first.PID = pid
}

// members are the live processes of the tree. The first one comes first, so that it is
// killed itself and does not end because of what happens to its children.
func (t *scanTree) members() []procfs.Process {
	members, _ := t.look()
	return members
}

// look returns the members, and whether it is certain that there are no others.
func (t *scanTree) look() (members []procfs.Process, certain bool) {
	if t.first.PID == 0 {
		return nil, true
	}
	certain = true
	all := procfs.All()
	in := make(map[int]bool)
	for pid, p := range all {
		in[pid] = pid == t.first.PID || p.Session == t.first.PID || p.Group == t.first.PID
	}
	procfs.AddDescendants(all, in)
	for pid, p := range all {
		if in[pid] || p.Dead || p.Start < t.first.Start {
			continue
		}
		has, known := hasMark(pid, t.mark)
		in[pid] = has
		certain = certain && known
	}
	procfs.AddDescendants(all, in)
	if first, ok := all[t.first.PID]; ok && !first.Dead {
		members = append(members, first)
	}
	for pid, p := range all {
		if in[pid] && !p.Dead && pid != t.first.PID {
			members = append(members, p)
		}
	}
	return members, certain
}

func (t *scanTree) terminate() { terminate(t.members) }

// terminate sends TERM and CONT to the members, and to those that were forked meanwhile. A process forks no more once a
// signal waits for it, so that the second look finds all that the first one could miss.
func terminate(members func() []procfs.Process) {
	sent := map[int]bool{}
	for range 2 {
		for _, p := range members() {
			if sent[p.PID] {
				continue
			}
			sent[p.PID] = true
			p.Send(syscall.SIGTERM)
			p.Send(syscall.SIGCONT)
		}
	}
}

func (t *scanTree) kill() (others killed) {
	killAll(func() ([]procfs.Process, bool) {
		members, certain := t.look()
		if others.processes == 0 {
			others = toKill(members, t.first.PID)
		}
		return members, certain
	})
	return others
}

// killAll kills the processes that look finds until certainly none is left: a process may fork while look runs. An
// ending process has no environment by which look could find it.
func killAll(look func() (found []procfs.Process, certain bool)) {
	killed := make(map[int]procfs.Process)
	for deadline := time.Now().Add(killPatience); ; time.Sleep(time.Millisecond) {
		found, certain := look()
		for _, p := range found {
			p.Send(syscall.SIGKILL)
			killed[p.PID] = p
		}
		maps.DeleteFunc(killed, func(pid int, p procfs.Process) bool {
			now, ok := procfs.Read(pid)
			return !ok || now.Dead || now.Start != p.Start
		})
		if certain && len(found)+len(killed) == 0 || time.Now().After(deadline) {
			return
		}
	}
}

func (t *scanTree) usage() treeUsage { return usageOf(t.members()) }

func usageOf(members []procfs.Process) (u treeUsage) {
	for _, p := range members {
		u.processes++
		u.memoryBytes += p.RSS
		u.user += p.User
		u.sys += p.Sys
		u.maxRSS = max(u.maxRSS, p.PeakRSS())
	}
	return u
}

func (t *scanTree) kind() string { return "scan" }

// KillMarked kills whatever carries one of the marks: what dead servers left behind.
func KillMarked(marks []string) {
	if len(marks) == 0 {
		return
	}
	killAll(func() (found []procfs.Process, certain bool) {
		certain = true
		for _, p := range procfs.All() {
			if p.Dead {
				continue
			}
			for _, mark := range marks {
				has, known := hasMark(p.PID, mark)
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

// toKill returns the members besides the first process, and what they run.
func toKill(members []procfs.Process, first int) (others killed) {
	for _, p := range members {
		if p.PID == first {
			continue
		}
		others.processes++
		if len(others.commands) < maxKilled {
			others.commands = append(others.commands, commandLine(p.PID))
		}
	}
	return others
}

// commandLine returns the program and arguments of a process, separated by spaces, or "?".
func commandLine(pid int) string {
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return "?"
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil || len(text) == 0 {
		return "?"
	}
	return strings.ToValidUTF8(strings.Join(strings.FieldsFunc(string(text), func(r rune) bool {
		return r == 0 || unicode.IsSpace(r) || unicode.IsControl(r)
	}), " "), "?")
}

// hasMark reports whether a process was started with a mark, "NAME=value", and whether that is known.
func hasMark(pid int, mark string) (has, known bool) {
	return procfs.HasVariable(pid, func(entry string) bool { return entry == mark })
}
