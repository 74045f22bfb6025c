//go:build amd64 || arm64

package isolation

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const secret = "the secret of the server"

// An attempt prints the secret, or "done" where it is to do something; it succeeds at the level none, or is none.
type attempts struct {
	name, command string
	// levels stop it.
	levels []Level
	// needs says what it cannot be tried without.
	needs func(m *Machine) bool
}

var (
	allLevels = []Level{Limits, Landlock, Bubblewrap}
	files     = []Level{Landlock, Bubblewrap}
	asRoot    = func(m *Machine) bool { return m.Root }
)

// ways are commands that get at what is not theirs. $DATA is the directory of the server's secrets, $VICTIM a
// process of the same user that holds the secret in its environment, has opened the token as descriptor 9 and works in
// $DATA; $SELF is this program.
var ways = []attempts{
	{"read the token", `cat $DATA/token`, allLevels, nil},
	{"read by a link", `ln -s $DATA/token link && cat link; rm link`, allLevels, nil},
	{"read the database", `cat $DATA/reprise.db`, allLevels, nil},
	{"list", `ls $DATA | grep -q reprise.db && echo done`, []Level{Limits, Bubblewrap}, nil},
	{"write", `echo x >$DATA/new && rm $DATA/new && echo done`, allLevels, nil},
	{"replace the token", `cp $DATA/token copy && mv -f copy $DATA/token && echo done`, allLevels, nil},
	{"move the directory", `mv $DATA $DATA.away && mv $DATA.away $DATA && echo done`, allLevels, nil},
	{"read through the root of the victim", `cat /proc/$VICTIM/root$DATA/token`, allLevels, nil},
	{"read through its directory", `cat /proc/$VICTIM/cwd/token`, allLevels, nil},
	{"read through its descriptor", `cat /proc/$VICTIM/fd/9`, allLevels, nil},
	{"read through our own root", `cat /proc/self/root$DATA/token`, allLevels, nil},
	{"read through init", `cat /proc/1/root$DATA/token`, allLevels, asRoot},
	{"read its environment", `tr '\0' '\n' </proc/$VICTIM/environ | grep SECRET`, allLevels, nil},
	{"read its memory", `ISOLATION_ATTEMPT=memory $SELF $VICTIM`, allLevels, nil},
	{"read it by process_vm_readv", `ISOLATION_ATTEMPT=vm $SELF $VICTIM`, allLevels, nil},
	{"trace it", `ISOLATION_ATTEMPT=trace $SELF $VICTIM`, allLevels, nil},
	{"take its files", `ISOLATION_ATTEMPT=getfd $SELF $VICTIM`, allLevels, nil},
	{"lower its limits", `ISOLATION_ATTEMPT=prlimit $SELF $VICTIM`, allLevels, nil},
	{"set the priority of a user", `ISOLATION_ATTEMPT=renice $SELF`, allLevels, nil},
	{"make calls by io_uring", `ISOLATION_ATTEMPT=uring $SELF`, allLevels, func(*Machine) bool { return true }},
	{"signal it", `kill -0 $VICTIM && echo done`, allLevels, nil},
	{"stop it", `kill -STOP $VICTIM && kill -CONT $VICTIM && echo done`, allLevels, nil},
	{
		"lift the mask in a new namespace", `unshare -Urm sh -c 'umount -l $DATA; cat $DATA/token'`, allLevels,
		func(m *Machine) bool { return m.Mounts == nil },
	},
	{"enter its namespaces", `nsenter -t $VICTIM -m cat $DATA/token`, allLevels, asRoot},
	{"read the disk", `ISOLATION_ATTEMPT=disk $SELF $DATA`, allLevels, asRoot},
	{"make a disk", `ISOLATION_ATTEMPT=mknod $SELF $DATA`, allLevels, asRoot},
	{"open by handle", `ISOLATION_ATTEMPT=handle $SELF $DATA.handle`, allLevels, asRoot},
	{"listen on loopback", `ISOLATION_ATTEMPT=sniff $SELF`, allLevels, asRoot},
	{
		"make a cgroup", `mkdir $CGROUP/attempt && rmdir $CGROUP/attempt && echo done`, allLevels,
		func(m *Machine) bool { return m.Root && cgroup2(m) != "" },
	},
	{
		"leave the cgroup", `echo $$ >$CGROUP/cgroup.procs && echo done`, allLevels,
		func(m *Machine) bool { return m.Root && cgroup2(m) != "" },
	},
	{
		"leave it by another mount", `unshare -UrCm sh -c 'mount -t cgroup2 none $OUTSIDE && echo $$ >$OUTSIDE/cgroup.procs &&
		echo done'`, allLevels,
		func(m *Machine) bool { return m.Root && cgroup2(m) != "" },
	},
	{
		"set the handler of crashes",
		`cat /proc/sys/kernel/core_pattern >set && cat set >/proc/sys/kernel/core_pattern && echo done`,
		allLevels, asRoot,
	},
	{"open the magic keys", `: >/proc/sysrq-trigger && echo done`, allLevels, asRoot},
	{
		"set the kernel", `cat /sys/kernel/rcu_normal >set && cat set >/sys/kernel/rcu_normal && echo done`,
		allLevels, asRoot,
	},
	{
		"connect to an abstract socket", `ISOLATION_ATTEMPT=abstract $SELF $ABSTRACT`, files,
		func(m *Machine) bool { return m.Landlock >= landlockScopes },
	},
	{"use bpf", `ISOLATION_ATTEMPT=bpf $SELF`, allLevels, asRoot},
	{"write outside", `echo x >$OUTSIDE/new && rm $OUTSIDE/new && echo done`, files, nil},
	{"empty a file outside", `: >$OUTSIDE/file && echo done`, files, nil},
	{"make a directory outside", `mkdir $OUTSIDE/d && rmdir $OUTSIDE/d && echo done`, files, nil},
	{"see other processes", `test -e /proc/$VICTIM && echo done`, []Level{Bubblewrap}, nil},
}

func cgroup2(m *Machine) string {
	for _, path := range m.Cgroups {
		if strings.HasSuffix(path, "unified") || path == "/sys/fs/cgroup" {
			return path
		}
	}
	return ""
}

// field is what the attempts are made in.
type field struct {
	data, outside, work string
	victim              *exec.Cmd
	env                 []string
	// open is what commands read beside the system: this program, and the directory that holds the others.
	open Directories
}

func newField(t *testing.T) *field {
	t.Helper()
	dir := t.TempDir()
	f := &field{data: dir + "/data", outside: dir + "/outside", work: dir + "/work"}
	for _, d := range []string{f.data, f.outside, f.work} {
		must(t, os.Mkdir(d, 0o700))
	}
	for _, name := range []string{"token", "reprise.db"} {
		must(t, os.WriteFile(filepath.Join(f.data, name), []byte(secret+"\n"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(f.outside, "file"), []byte("x"), 0o600))
	if os.Geteuid() == 0 {
		must(t, saveHandle(filepath.Join(f.data, "token"), f.data+".handle"))
	}
	f.victim = exec.Command("/bin/sh", "-c", "exec 9<token; exec sleep 1000")
	f.victim.Dir, f.victim.Env = f.data, []string{"PATH=" + os.Getenv("PATH"), "SECRET=" + secret}
	must(t, f.victim.Start())
	t.Cleanup(func() {
		_ = f.victim.Process.Kill()
		_ = f.victim.Wait()
	})
	pid := strconv.Itoa(f.victim.Process.Pid)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if name, _ := os.ReadFile("/proc/" + pid + "/comm"); string(name) == "sleep\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the victim did not start")
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	abstract := "isolation-" + pid
	listener, err := net.Listen("unix", "@"+abstract)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	self, err := os.Executable()
	must(t, err)
	f.open.Readable = []string{filepath.Dir(self), dir}
	f.env = []string{
		"DATA=" + f.data, "OUTSIDE=" + f.outside, "VICTIM=" + pid, "SELF=" + self,
		"ABSTRACT=" + abstract, "CGROUP=" + cgroup2(Probe()), "TMPDIR=" + f.work,
	}
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// succeeded reports whether the output of an attempt is what it was after.
func succeeded(output string) bool {
	return strings.Contains(output, secret) || slices.Contains(strings.Split(output, "\n"), "done")
}

// TestAttemptsFailAtLevelsThatStopThem makes each attempt without isolation, where it succeeds, and at the levels that
// stop it.
func TestAttemptsFailAtLevelsThatStopThem(t *testing.T) {
	f := newField(t)
	t.Setenv("TMPDIR", f.work) // which the levels that bound writing leave writable
	config := Config{Masks: masks(t, f.data), Directories: f.open}
	plain := resolve(t, config, None, Access{})
	for _, way := range ways {
		t.Run(strings.ReplaceAll(way.name, " ", "_"), func(t *testing.T) {
			if way.needs != nil && !way.needs(Probe()) {
				t.Skip("cannot be tried here")
			}
			if out, _ := shell(t, plain, f.work, way.command, f.env...); !succeeded(out) {
				if way.needs != nil { // a container may be kept from what is its root's
					t.Skipf("without isolation it does not succeed either: %s", out)
				}
				t.Fatalf("without isolation it does not succeed either: %s", out)
			}
			for _, level := range way.levels {
				t.Run(string(level), func(t *testing.T) {
					p := resolve(t, config, level, Access{})
					if out, _ := shell(t, p, f.work, way.command, f.env...); succeeded(out) {
						t.Errorf("it succeeds: %s", out)
					}
				})
			}
			if token, err := os.ReadFile(filepath.Join(f.data, "token")); err != nil || string(token) != secret+"\n" {
				t.Fatalf("the token is %q, %v", token, err)
			}
		})
	}
}

// TestSettingsOfKernelCanBeRead reads what commands may not write, and writes what they may.
func TestSettingsOfKernelCanBeRead(t *testing.T) {
	const command = "cat /proc/sys/kernel/ostype && ls /sys/class/net && echo x >/proc/self/comm && echo 0 >/proc/self/oom_score_adj"
	if out, code := shell(t, resolve(t, Config{}, Limits, Access{}), "/", command); code != 0 {
		t.Error(out)
	}
}

// TestPassagesToDisks names devices of characters.
func TestPassagesToDisks(t *testing.T) {
	for path, want := range map[string]bool{
		"/dev/sg0": true, "/dev/bsg/0:0:0:0": true, "/dev/nvme0": true, "/dev/ng0n1": true, "/dev/sgx_enclave": false,
		"/dev/null": false, "/dev/tty": false,
	} {
		if diskPassages.MatchString(path) != want {
			t.Errorf("%s: want %t", path, want)
		}
	}
}

// TestAttemptsWithoutMounts is about machines that give no mount namespace: the level landlock hides by rules.
func TestAttemptsWithoutMounts(t *testing.T) {
	f := newField(t)
	t.Setenv("TMPDIR", f.work)
	m := *Probe()
	m.Mounts = errNotLinux
	config := Config{Masks: masks(t, f.data), Machine: &m, Directories: f.open}
	for _, level := range []Level{Limits, Landlock} {
		p := resolve(t, config, level, Access{})
		for _, way := range ways {
			// What the caller is root for is stopped by mounts alone.
			if !slices.Contains(way.levels, level) || way.needs != nil || way.name == "list" {
				continue
			}
			if out, _ := shell(t, p, f.work, way.command, f.env...); succeeded(out) {
				t.Errorf("%s at %s: %s", way.name, level, out)
			}
		}
		const work = "cat $SELF >/dev/null && ls /usr >/dev/null && echo x >file && rm file"
		if out, code := shell(t, p, f.work, work, f.env...); code != 0 {
			t.Errorf("ordinary work at %s: %s", level, out)
		}
	}
	const outside = "echo x >$OUTSIDE/new && rm $OUTSIDE/new"
	if out, code := shell(t, resolve(t, config, "", Access{}), f.work, outside, f.env...); code != 0 {
		t.Errorf("limits does not let write elsewhere: %s", out)
	}
}

// TestUserHidesWhatItHasNoRightsTo: without mounts, the level limits is given to another user only if the modes of the
// hidden paths keep that user out.
func TestUserHidesWhatItHasNoRightsTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := os.MkdirTemp("", "isolation-*") // of which every directory above can be entered
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o755))
	m := *Probe()
	m.Mounts, m.Landlock = errNotLinux, 0
	for _, of := range []struct {
		name    string
		mode    os.FileMode
		uid     int
		refused bool
	}{
		{"of-root", 0o600, 0, false},
		{"for-all", 0o644, 0, true},
		{"for-its-group", 0o640, 0, true},
		{"of-the-user", 0o400, 1234, true},
		{"writable", 0o620, 0, true},
	} {
		path := filepath.Join(dir, of.name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chown(path, of.uid, 1235))
		must(t, os.Chmod(path, of.mode))
		user := &User{Name: "build", UID: 1234, GID: 1234, Groups: []int{1235}}
		config := Config{User: user, Machine: &m, Masks: masks(t, path)}
		p, err := config.Resolve(Limits, Access{})
		if _, refused := errors.AsType[*RefusedError](err); refused != of.refused {
			t.Errorf("%s: %+v, %v", of.name, p, err)
		}
		p, err = config.Resolve("", Access{})
		if err != nil || (p.Layers.Hidden == ByUser) == of.refused {
			t.Errorf("%s by default: %+v, %v", of.name, p, err)
		}
	}
	must(t, os.Chmod(dir, 0o700))
	config := Config{
		User: &User{Name: "build", UID: 1234, GID: 1234}, Machine: &m,
		Masks: masks(t, filepath.Join(dir, "for-all")),
	}
	if _, err := config.Resolve(Limits, Access{}); err != nil {
		t.Errorf("in a directory that the user may not enter: %v", err)
	}
}

// TestAttemptsOffline: the network is off, but for a loopback of its own.
func TestAttemptsOffline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	self, err := os.Executable()
	must(t, err)
	env := []string{"SELF=" + self, "ADDRESS=" + listener.Addr().String()}
	const connect, serve = "ISOLATION_ATTEMPT=connect $SELF $ADDRESS", "ISOLATION_ATTEMPT=loopback $SELF"
	if out, _ := shell(t, resolve(t, Config{}, Limits, Access{}), "/", connect, env...); !succeeded(out) {
		t.Fatalf("with the network on: %s", out)
	}
	for _, level := range allLevels {
		p := resolve(t, Config{}, level, Access{Offline: true, Readable: []string{filepath.Dir(self)}})
		if p.Layers.Network != Off {
			t.Errorf("%s: layers %+v", level, p.Layers)
		}
		if out, _ := shell(t, p, "/", connect, env...); succeeded(out) {
			t.Errorf("%s: connected", level)
		}
		if out, _ := shell(t, p, "/", serve, env...); !succeeded(out) {
			t.Errorf("%s: no loopback: %s", level, out)
		}
	}
}

// TestCapabilitiesOfCommandAreReduced looks at what a command has and can ever get.
func TestCapabilitiesOfCommandAreReduced(t *testing.T) {
	p := resolve(t, Config{}, Limits, Access{})
	want := uint64(0)
	if p.Layers.Capabilities == ReducedSet {
		for _, c := range kept {
			if hasCapability(c) {
				want |= 1 << c
			}
		}
	}
	out, _ := shell(t, p, "/", "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status")
	for line := range strings.Lines(out) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		got, err := strconv.ParseUint(text, 16, 64)
		must(t, err)
		if (name == "CapInh" || name == "CapAmb") && got != 0 || name != "CapInh" && name != "CapAmb" && got != want {
			t.Errorf("%s is %#x, what is kept is %#x", name, got, want)
		}
	}
	if strings.Count(out, "Cap") != 5 {
		t.Errorf("%q", out)
	}
}

// TestSystemCallsAreDenied makes a call that needs no right and is denied, and one that is not.
func TestSystemCallsAreDenied(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	const command = "ISOLATION_ATTEMPT=keyctl $SELF"
	if out, _ := shell(t, resolve(t, Config{}, None, Access{}), "/", command, "SELF="+self); !succeeded(out) {
		t.Skipf("without isolation it does not succeed either: %s", out)
	}
	open := Config{Directories: Directories{Readable: []string{filepath.Dir(self)}}}
	for _, level := range allLevels {
		t.Run(string(level), func(t *testing.T) {
			if out, _ := shell(t, resolve(t, open, level, Access{}), "/", command, "SELF="+self); succeeded(out) {
				t.Error("the call was made")
			}
		})
	}
}

// attempt does in the test binary what a shell cannot.
func attempt(what string, args []string) {
	err := map[string]func([]string) error{
		"memory": readMemory, "vm": readVM, "trace": trace, "disk": readDisk, "mknod": makeDisk, "handle": openHandle,
		"sniff": sniff, "bpf": bpf, "connect": connect, "loopback": loopback,
		"keyctl": keyctl, "getfd": takeFile, "prlimit": lowerLimit, "renice": renice, "uring": setupRing,
		"abstract": connectAbstract, "serve": serve, "terminal": openTerminal,
	}[what](args)
	if err != nil {
		fmt.Println(what, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// stack is the address range of the stack of a process, which holds its environment.
func stack(pid string) (from, to uint64, err error) {
	maps, err := os.ReadFile("/proc/" + pid + "/maps")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[stack]\n") {
			_, err = fmt.Sscanf(line, "%x-%x", &from, &to)
			return from, to, err
		}
	}
	return 0, 0, fmt.Errorf("no stack in %d bytes", len(maps))
}

func find(memory []byte) error {
	if at := bytes.Index(memory, []byte(secret)); at >= 0 {
		fmt.Println(string(memory[at : at+len(secret)]))
	}
	return nil
}

func readMemory(args []string) error {
	mem, err := os.Open("/proc/" + args[0] + "/mem")
	if err != nil {
		return err
	}
	from, to, err := stack(args[0])
	if err != nil {
		return err
	}
	buf := make([]byte, to-from)
	if _, err = mem.ReadAt(buf, int64(from)); err != nil {
		return err
	}
	return find(buf)
}

func readVM(args []string) error {
	from, to, err := stack(args[0])
	if err != nil { // guess: the call itself is what is asked
		from, to = 0x7ffc00000000, 0x7ffc00001000
	}
	pid, _ := strconv.Atoi(args[0])
	buf := make([]byte, to-from)
	local, remote := []unix.Iovec{{Base: &buf[0]}}, []unix.RemoteIovec{{Base: uintptr(from), Len: int(to - from)}}
	local[0].SetLen(len(buf))
	if _, err = unix.ProcessVMReadv(pid, local, remote, 0); err != nil {
		return err
	}
	return find(buf)
}

func trace(args []string) error {
	pid, _ := strconv.Atoi(args[0])
	if err := syscall.PtraceAttach(pid); err != nil {
		return err
	}
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	fmt.Println("done")
	return syscall.PtraceDetach(pid)
}

// device is the number of the disk that holds a directory.
func device(dir string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	return st.Dev, err
}

// readDisk opens a node of the device below /dev.
func readDisk(args []string) error {
	dev, err := device(filepath.Dir(args[0]))
	if err != nil {
		return err
	}
	nodes, _ := filepath.Glob("/dev/*")
	for _, node := range nodes {
		var st unix.Stat_t
		if unix.Stat(node, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && st.Rdev == dev {
			return readSector(node)
		}
	}
	return fmt.Errorf("no node of device %#x", dev)
}

func makeDisk(args []string) error {
	dev, err := device(filepath.Dir(args[0]))
	if err != nil {
		return err
	}
	defer os.Remove("disk")
	if err := unix.Mknod("disk", unix.S_IFBLK|0o600, int(dev)); err != nil {
		return err
	}
	return readSector("disk")
}

func readSector(node string) error {
	f, err := os.Open(node)
	if err != nil {
		return err
	}
	if _, err := f.ReadAt(make([]byte, 4096), 0); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// saveHandle writes the number of a file into another, as somebody may know it from before.
func saveHandle(path, to string) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return err
	}
	return os.WriteFile(to, binaryHandle(handle), 0o600)
}

func binaryHandle(h unix.FileHandle) []byte {
	kind := h.Type()
	return append(unsafe.Slice((*byte)(unsafe.Pointer(&kind)), 4), h.Bytes()...)
}

func openHandle(args []string) error {
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	mount, err := os.Open(filepath.Dir(args[0]))
	if err != nil {
		return err
	}
	handle := unix.NewFileHandle(*(*int32)(unsafe.Pointer(&text[0])), text[4:])
	fd, err := unix.OpenByHandleAt(int(mount.Fd()), handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	buf := make([]byte, 100)
	n, err := unix.Read(fd, buf)
	fmt.Println(string(buf[:n]))
	return err
}

func sniff([]string) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err == nil {
		fmt.Println("done")
		err = unix.Close(fd)
	}
	return err
}

func bpf([]string) error {
	attr := [4]uint32{2, 4, 4, 1} // an array of one entry of four bytes
	_, _, errno := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), 16)
	if errno != 0 {
		return errno
	}
	fmt.Println("done")
	return nil
}

func keyctl([]string) error {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
	if err == nil {
		fmt.Println("done")
	}
	return err
}

// takeFile reads the token by a copy of the victim's descriptor.
func takeFile(args []string) error {
	pid, _ := strconv.Atoi(args[0])
	victim, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdGetfd(victim, 9, 0)
	if err != nil {
		return err
	}
	buf := make([]byte, 100)
	n, err := unix.Pread(fd, buf, 0)
	fmt.Println(string(buf[:n]))
	return err
}

// lowerLimit sets a limit of the victim to what it is, as another one could be set.
func lowerLimit(args []string) error {
	pid, _ := strconv.Atoi(args[0])
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &now); err != nil {
		return err
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, &now, nil); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// renice sets the priority of all processes of a user who has none: the call itself is what is asked.
func renice([]string) error {
	const nobodyAtAll = 1_987_654_321
	if err := unix.Setpriority(unix.PRIO_USER, nobodyAtAll, 19); !errors.Is(err, unix.ESRCH) {
		return err
	}
	fmt.Println("done")
	return nil
}

func setupRing([]string) error {
	var params [120]byte
	_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno != 0 {
		return errno
	}
	fmt.Println("done")
	return nil
}

func connect(args []string) error {
	conn, err := net.DialTimeout("tcp", args[0], 2*time.Second)
	if err != nil {
		return err
	}
	fmt.Println("done")
	return conn.Close()
}

// connectAbstract connects to the Unix socket with an abstract name.
func connectAbstract(args []string) error {
	conn, err := net.Dial("unix", "@"+args[0])
	if err != nil {
		return err
	}
	fmt.Println("done")
	return conn.Close()
}

func loopback([]string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return connect([]string{listener.Addr().String()})
}
