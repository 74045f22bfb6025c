package procfs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is the content of /proc/<pid>/stat; see proc_pid_stat(5).
type Process struct {
	PID, Parent, Group, Session int
	// Dead is set for a zombie of which no thread is left.
	Dead bool
	// User and Sys are the times that it has used, and RSS its memory in bytes.
	User, Sys time.Duration
	RSS       int64
	// Start is the start time in ticks since boot. Together, PID and Start identify a process uniquely.
	Start uint64
	// memory is unset for a thread of the kernel, and for a process that is ending.
	memory bool
	// environ is the size of the environment.
	environ int64
	// shows is the thread whose files in /proc show the memory and the environment. It is the first thread, which has
	// the number of the Process, unless that has ended while others go on.
	shows int
}

// unknownEnviron is the size of the environment in the middle of an execve(2).
const unknownEnviron = -1

// tick is the unit of times in /proc, which is the same on all of Linux.
const tick = 10 * time.Millisecond

var pageSize = int64(os.Getpagesize())

// Read reads /proc/<pid>/stat; ok is false when there is no such process.
func Read(pid int) (p Process, ok bool) {
	p, threads, ok := readStat(pid)
	if !p.Dead || threads <= 1 {
		return p, ok
	}
	// The first thread has ended, and others go on. The kernel shows a zombie without memory, but reports no end.
	p.Dead = false
	for _, thread := range threadsOf(pid) {
		if t, _, ok := readStat(thread); ok && !t.Dead {
			p.RSS, p.memory, p.environ, p.shows = t.RSS, t.memory, t.environ, thread
			break
		}
	}
	return p, true
}

// threadsOf returns the numbers of the threads of a process.
func threadsOf(pid int) (threads []int) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if thread, err := strconv.Atoi(name); err == nil {
			threads = append(threads, thread)
		}
	}
	return threads
}

// readStat reads /proc/<thread>/stat of any thread: what it says of a process is the same for all, and memory and state
// are those of the thread.
func readStat(thread int) (p Process, threads int64, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(thread) + "/stat")
	if err != nil {
		return Process{}, 0, false
	}
	// The name, in parentheses, may hold anything, parentheses too.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 22 {
		return Process{}, 0, false
	}
	number := func(i int) int64 { // i as the manual counts
		n, _ := strconv.ParseInt(fields[i-3], 10, 64)
		return n
	}
	// While execve(2) lays out the new image, the environment is empty before it is whole. The address of the
	// code is set after that.
	environ := int64(unknownEnviron)
	if len(fields) > 48 && number(51) != 0 && number(26) != 0 {
		environ = number(51) - number(50)
	}
	return Process{
		PID: thread, Parent: int(number(4)), Group: int(number(5)), Session: int(number(6)),
		Dead: fields[0] == "Z" || fields[0] == "X",
		User: time.Duration(number(14)+number(16)) * tick,
		Sys:  time.Duration(number(15)+number(17)) * tick,
		RSS:  number(24) * pageSize, Start: uint64(number(22)),
		memory: number(23) != 0, environ: environ, shows: thread,
	}, number(20), true
}

// All reads all of /proc. The result is not a snapshot: processes may start and end meanwhile.
func All() map[int]Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(map[int]Process, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := Read(pid); ok {
				all[pid] = p
			}
		}
	}
	return all
}

// AddDescendants adds to in all descendants of its members.
func AddDescendants(all map[int]Process, in map[int]bool) {
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if !in[pid] && in[p.Parent] {
				in[pid], grown = true, true
			}
		}
	}
}

// HasVariable reports whether the process was started with a matching entry, "NAME=value", in its environment. known is
// false during an execve(2), when the kernel shows no environment.
func HasVariable(pid int, matches func(entry string) bool) (has, known bool) {
	shows := pid
	for range 2 {
		env, err := readEnviron(shows)
		if err != nil && !errors.Is(err, unix.ESRCH) { // which a thread without memory may give
			return false, true
		}
		if len(env) > 0 {
			for one := range bytes.SplitSeq(env, []byte{0}) {
				if matches(string(one)) {
					return true, true
				}
			}
			return false, true
		}
		p, ok := Read(pid)
		switch {
		case !ok || p.Dead || !p.memory: // it has ended or is ending, or is a thread of the kernel
			return false, true
		case p.shows != shows:
			shows = p.shows
		case p.environ == unknownEnviron:
			return false, false
		case p.environ == 0:
			return false, true
		} // else the execve is over by now
	}
	return false, false
}

// readEnviron reads /proc/<pid>/environ with one system call: a second one finds the end
// of the file if the process has called execve(2) meanwhile.
func readEnviron(pid int) ([]byte, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for env := make([]byte, 8<<10); ; env = make([]byte, 8*len(env)) {
		n, err := unix.Pread(int(f.Fd()), env, 0)
		if err != nil || n < len(env) {
			return env[:max(n, 0)], err
		}
	}
}

// PeakRSS is the most memory that a live process has taken.
func (p Process) PeakRSS() int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.shows) + "/status")
	if err != nil {
		return 0
	}
	_, rest, found := strings.Cut(string(text), "\nVmHWM:")
	if !found {
		return 0
	}
	fields := strings.Fields(rest)
	kib, _ := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10
}

// Send sends a signal to exactly this Process, even if its pid has been reused.
func (p Process) Send(s syscall.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := Read(p.PID); ok && now.Start == p.Start {
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}
