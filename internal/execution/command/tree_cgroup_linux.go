package command

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reprise/internal/isolation"
	"reprise/internal/procfs"
	"reprise/internal/spawn"
)

// cgroups is the folder of one Host in the cgroup v2 tree, in which each run gets a group. The folder is locked while
// the Host lives, so that another Host recognizes the folders of dead servers. See
// https://docs.kernel.org/admin-guide/cgroup-v2.html.
type cgroups struct {
	dir  string
	lock *os.File
	// controllers of the groups of runs, where they are delegated to us.
	memory, pids bool
}

// cgroupPrefix begins the names of the folders of Hosts.
const cgroupPrefix = "reprise-"

// openCgroups creates the cgroup of this Host. It kills and removes the cgroups that dead Hosts left next to it.
// The error says why processes cannot be put into cgroups here.
func openCgroups(s *spawn.Spawner) (*cgroups, error) {
	parent, err := ownCgroup("/proc/self/mountinfo", "/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	removeLeftCgroups(parent)
	for range 3 { // another Host may take a new folder for a left one before it is locked
		var dir string
		if dir, err = os.MkdirTemp(parent, cgroupPrefix+"*"); err != nil {
			return nil, err
		}
		c := &cgroups{dir: dir}
		if err = c.init(s); err == nil {
			return c, nil
		}
		c.close()
	}
	return nil, err
}

func (c *cgroups) init(s *spawn.Spawner) (err error) {
	if c.lock, err = lockDir(c.dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(c.dir, "cgroup.kill")); err != nil {
		return fmt.Errorf("the kernel cannot kill a cgroup: %w", err)
	}
	controllers, _ := os.ReadFile(filepath.Join(c.dir, "cgroup.controllers"))
	for name := range strings.FieldsSeq(string(controllers)) {
		enable := func() bool {
			return os.WriteFile(filepath.Join(c.dir, "cgroup.subtree_control"), []byte("+"+name), 0) == nil
		}
		switch name {
		case "memory":
			c.memory = enable()
		case "pids":
			c.pids = enable()
		}
	}
	return c.probe(s)
}

// probe checks that a process can be cloned into a group. It starts a program that does not exist, so that this is the
// only error if the clone succeeds.
func (c *cgroups) probe(s *spawn.Spawner) error {
	t, err := c.newTree("probe")
	if err != nil {
		return err
	}
	defer t.close()
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{}}
	t.prepare(attr.Sys)
	nowhere := filepath.Join(c.dir, "no-such-program")
	if _, err := s.Start(nowhere, []string{nowhere}, attr); !isNotExist(err) {
		return fmt.Errorf("clone into a cgroup: %w", err)
	}
	return nil
}

func isNotExist(err error) bool {
	pathError, ok := err.(*fs.PathError)         //nolint:errorlint // as os.StartProcess documents
	return ok && pathError.Err == syscall.ENOENT //nolint:errorlint // an errno
}

// lockDir locks a directory until the file is closed, or fails if another holds the lock.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// removeLeftCgroups ends the processes in folders that no Host has locked.
func removeLeftCgroups(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, dir := range left {
		if lock, err := lockDir(dir); err == nil {
			killCgroup(dir)
			removeCgroup(dir)
			_ = lock.Close()
		}
	}
}

func (c *cgroups) close() {
	killCgroup(c.dir)
	removeCgroup(c.dir)
	if c.lock != nil {
		_ = c.lock.Close()
	}
}

// sealedMark follows the name of a cgroup, in a trace, if no process of the command can leave it.
const sealedMark = " " + isolation.ReadOnly

// KillLeft ends the processes that a killed supervisor has left in its cgroup. trace is what its System.Trace has
// returned. It reports whether these are all, because none could leave it.
func KillLeft(trace string) bool {
	dir, sealed := strings.CutSuffix(trace, sealedMark)
	if !strings.HasPrefix(filepath.Base(dir), cgroupPrefix) {
		return false
	}
	lock, err := lockDir(dir)
	if err != nil {
		return sealed && isNotExist(err) // somebody has done so before
	}
	defer lock.Close()
	killCgroup(dir)
	done := !populated(dir)
	removeCgroup(dir)
	return sealed && done
}

// ownCgroup is the folder of our own group in the cgroup v2 tree.
func ownCgroup(mountinfo, self string) (string, error) {
	mounts, err := os.ReadFile(mountinfo)
	if err != nil {
		return "", err
	}
	groups, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	group := ""
	for line := range strings.Lines(string(groups)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			group = strings.TrimSuffix(path, "\n")
		}
	}
	if group == "" {
		return "", fmt.Errorf("no cgroup v2")
	}
	for line := range strings.Lines(string(mounts)) {
		// ID parent major:minor root mountpoint options [optional...] - type source options
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if len(fields) < 6 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		inside, err := filepath.Rel(unescapeMount(fields[3]), group)
		if err == nil && inside != ".." && !strings.HasPrefix(inside, "../") {
			return filepath.Join(unescapeMount(fields[4]), inside), nil
		}
	}
	return "", fmt.Errorf("no cgroup v2 is mounted that holds our own group %s", group)
}

// unescapeMount undoes the octal escapes of proc_pid_mountinfo(5).
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// cgroupTree is the tree of a run in its own cgroup, which a process can leave where cgroup file systems are writable.
type cgroupTree struct {
	dir    string
	fd     *os.File
	groups *cgroups
	first  int
	// memory and pids are set if the kernel enforces a limit of the run. It also counts what others have caused.
	memory, pids bool
}

func (c *cgroups) newTree(name string) (*cgroupTree, error) {
	t := &cgroupTree{dir: filepath.Join(c.dir, name), groups: c}
	if err := os.Mkdir(t.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if t.fd, err = os.Open(t.dir); err != nil {
		removeCgroup(t.dir)
		return nil, err
	}
	return t, nil
}

func (t *cgroupTree) prepare(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD = true
	attr.CgroupFD = int(t.fd.Fd())
}

func (t *cgroupTree) started(pid int) { t.first = pid }

func (t *cgroupTree) kind() string { return "cgroup" }

func (t *cgroupTree) terminate() { terminate(t.members) }

func (t *cgroupTree) members() []procfs.Process { return processesIn(t.dir) }

// processesIn returns the live processes in a group and the groups below it.
func processesIn(dir string) (found []procfs.Process) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil //nolint:nilerr // a group that has gone has no members
		}
		text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				if p, ok := procfs.Read(pid); ok && !p.Dead {
					found = append(found, p)
				}
			}
		}
		return nil
	})
	return found
}

func (t *cgroupTree) kill() (others killed) {
	if !populated(t.dir) {
		return others
	}
	others = toKill(t.members(), t.first)
	killCgroup(t.dir)
	return others
}

// killCgroup kills all processes in a group, those that are being forked too, and waits
// until they are gone.
func killCgroup(dir string) {
	if !populated(dir) { // nothing is left that could fork
		return
	}
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	for deadline := time.Now().Add(killPatience); populated(dir) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
		for _, p := range processesIn(dir) { // the kernel leaves out those whose first thread has ended
			p.Send(syscall.SIGKILL)
		}
	}
}

// populated reports whether a process lives in the group or below it. Zombies do not count.
func populated(dir string) bool { return keyed(filepath.Join(dir, "cgroup.events"), "populated") > 0 }

// removeCgroup removes a group and those below it. The kernel may hold on to a group for
// a moment after its last process has gone.
func removeCgroup(dir string) {
	for deadline := time.Now().Add(killPatience); ; time.Sleep(time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT || time.Now().After(deadline) { //nolint:errorlint // an errno
			return
		}
		below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		for _, procs := range below {
			removeCgroup(filepath.Dir(procs))
		}
	}
}

// keyed returns the value of key in a file of lines "key value", or 0 if it is missing.
func keyed(file, key string) int64 {
	return keyedIn(readSmall(file), key)
}

// readSmall returns the beginning of a file of the kernel, up to 4 KiB, or nil if it cannot be read. Unlike os.ReadFile
// it does not try to wait for the file, which takes six further system calls.
func readSmall(file string) []byte {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	text := make([]byte, 4<<10)
	n, err := unix.Read(fd, text)
	if err != nil {
		return nil
	}
	return text[:n]
}

// keyedIn is keyed in a text.
func keyedIn(text []byte, key string) int64 {
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

func (t *cgroupTree) usage() (u treeUsage) {
	if populated(t.dir) {
		u = usageOf(t.members())
	}
	stat := readSmall(filepath.Join(t.dir, "cpu.stat")) // counts the dead too, and is there without a controller
	u.user = time.Duration(keyedIn(stat, "user_usec")) * time.Microsecond
	u.sys = time.Duration(keyedIn(stat, "system_usec")) * time.Microsecond
	return u
}

func (t *cgroupTree) enforce(limits Limits, in *Isolation) {
	set := func(file string, value int64) bool {
		return os.WriteFile(filepath.Join(t.dir, file), strconv.AppendInt(nil, value, 10), 0) == nil
	}
	if limits.MemoryBytes > 0 && t.groups.memory && set("memory.max", limits.MemoryBytes) {
		in.Memory, t.memory = heldByKernel, true
		set("memory.swap.max", 0)
		set("memory.oom.group", 1)
	}
	if limits.Processes > 0 && t.groups.pids && set("pids.max", limits.Processes) {
		in.Processes, t.pids = heldByKernel, true
	}
}

func (t *cgroupTree) exceeded() string {
	switch {
	case t.memory && keyed(filepath.Join(t.dir, "memory.events"), "oom_kill") > 0:
		return limitMemory
	case t.pids && keyed(filepath.Join(t.dir, "pids.events"), "max") > 0:
		return limitProcesses
	}
	return ""
}

func (t *cgroupTree) close() (left bool) {
	killCgroup(t.dir)
	left = populated(t.dir)
	_ = t.fd.Close()
	removeCgroup(t.dir)
	return left
}
