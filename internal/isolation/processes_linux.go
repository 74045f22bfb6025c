//go:build amd64 || arm64

package isolation

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// surround puts the child into the namespaces of the plan. With a process table of its own, the child then forks two
// processes and ends: the first process of the table, and the command, to which everything belongs that is added later.
// The command is a child of ours like any other.
func (p *program) surround(pl *Plan, f *forest, cgroup int) error {
	p.namespaces(pl)
	p.mounts(pl)
	view, table := pl.Layers.Readable == ByMounts, pl.Layers.Signals == ByPIDNamespace
	first := 0
	if view {
		p.view(f)
	}
	if table {
		first = p.branch("process table", unix.CLONE_VFORK, -1)
	}
	if view {
		p.enterView()
	}
	if pl.Layers.Network == Off {
		p.loopback()
	}
	if !table {
		return nil
	}
	if pl.isRoot() { // whose own /proc is writable for it, also without capabilities
		for _, path := range pl.Given.Settings {
			if within(path, "/proc") {
				p.protect(path)
			}
		}
	}
	return p.forkCommand(pl, first, cgroup)
}

// forkCommand forks the command. first is the branch of the first process, which waits at a pipe: for one byte if the
// command was started and we live, and otherwise for the end of the pipe.
func (p *program) forkCommand(pl *Plan, first, cgroup int) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return &StepError{"process table", os.NewSyscallError("pipe2", err)}
	}
	p.fds = append(p.fds, pipe[:]...)
	p.command = new(uintptr)
	command := p.branch("process table", unix.CLONE_VFORK|unix.CLONE_PARENT, cgroup)
	p.calls[command].save = address(p, p.command)
	p.expectParent()
	p.add("process table", unix.SYS_WRITE, uintptr(pipe[1]), p.bytes([]byte{1}), 1)
	p.exit()

	p.here(first)
	p.add("process table", unix.SYS_MOUNT, p.text("proc"), p.relative("/proc"), p.text("proc"), maskFlags, 0)
	p.add("process table", unix.SYS_SETSID)
	p.files(pipe[0], -1, -1)
	p.add("process table", unix.SYS_CLOSE_RANGE, 3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	p.dropBounding(pl)
	p.dropCapabilities(pl)
	p.add("process table", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	err := p.execFile("process table", initImage, []string{"reprise-init"}, nil)

	p.here(command)
	return err
}

// initImage is a descriptor of the program that the first process of a process table executes, so that it does not have
// our memory. It reaps orphans until the command, which is process 2, has ended, and ends too. The kernel then ends all
// other processes of the table. The file cannot be read, and therefore no command the memory of the process.
var initImage = sync.OnceValues(func() (int, error) {
	const executable = 0x10 // MFD_EXEC, which kernels before 6.3 do not know
	fd, err := unix.MemfdCreate("reprise-init", unix.MFD_CLOEXEC|executable)
	if err == unix.EINVAL { //nolint:errorlint // an errno
		fd, err = unix.MemfdCreate("reprise-init", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	defer unix.Close(fd) // what is open for writing is not executed
	if _, err := unix.Write(fd, elf(initText()[:])); err != nil {
		return -1, os.NewSyscallError("write", err)
	}
	if err := unix.Fchmod(fd, 0o100); err != nil {
		return -1, os.NewSyscallError("fchmod", err)
	}
	held, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	return held, os.NewSyscallError("open", err)
})

// elf returns an executable file for machine code that does not depend on its address; see elf(5).
func elf(code []byte) []byte {
	const address, header, segment = 1 << 22, 64, 56
	const size = header + segment
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9)) // 64 bits, little-endian, version 1
	for _, field := range []any{
		uint16(2), uint16(nativeArch & 0xffff), uint32(1), uint64(address + size), uint64(header),
		uint64(0), uint32(0), // ET_EXEC
		uint16(header), uint16(segment), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(address), uint64(address), // PT_LOAD, which is read and executed
		uint64(size + len(code)), uint64(size + len(code)), uint64(1 << 16),
	} {
		_ = binary.Write(&b, binary.LittleEndian, field) // a Buffer takes everything
	}
	return append(b.Bytes(), code...)
}

// makes reports whether t is made for the command in place of the one of the system.
func (f *forest) makes(t tree) bool { return f.processes && (t.bare || t.Path == "/proc") }

// devices makes a /dev with the devices that are open to every command, and terminals of its own. The terminal of the
// command, which is none of those, is there as the console.
func (p *program) devices(f *forest) {
	const step = "view /dev"
	p.add(step, unix.SYS_MOUNT, p.text("tmpfs"), p.relative("/dev"), p.text("tmpfs"), unix.MS_NOSUID|unix.MS_NOEXEC,
		p.text("mode=0755,size=64k"))
	node := func(from, at string) {
		p.add(step, unix.SYS_MKNODAT, atFDCWD, p.relative(at), unix.S_IFREG|0o666)
		p.bind(step, from, "."+at)
	}
	for _, path := range writableDevices {
		if info, err := os.Stat(path); err == nil && !info.IsDir() && path != "/dev/ptmx" {
			node(path, path)
		}
	}
	if strings.HasPrefix(f.terminal, "/dev/pts/") {
		node(f.terminal, "/dev/console")
	}
	for _, l := range []link{
		{"/dev/fd", "/proc/self/fd"},
		{"/dev/stdin", "/proc/self/fd/0"},
		{"/dev/stdout", "/proc/self/fd/1"},
		{"/dev/stderr", "/proc/self/fd/2"},
		{"/dev/ptmx", "pts/ptmx"},
	} {
		p.add(step, unix.SYS_SYMLINKAT, p.text(l.target), atFDCWD, p.relative(l.path))
	}
	p.add(step, unix.SYS_MKDIRAT, atFDCWD, p.relative(sharedMemory), 0o755)
	p.add(step, unix.SYS_MKDIRAT, atFDCWD, p.relative("/dev/pts"), 0o755)
	p.add(step, unix.SYS_MOUNT, p.text("devpts"), p.relative("/dev/pts"), p.text("devpts"),
		unix.MS_NOSUID|unix.MS_NOEXEC, p.text("newinstance,ptmxmode=0666,mode=620"))
}
