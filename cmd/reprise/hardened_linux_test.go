package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hardened becomes the program in args, with what systemd does for RestrictSUIDSGID= in the unit that we ship: openat2
// is a call that the kernel does not have.
func hardened(args []string) error {
	load, equal, returns := uint16(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS), uint16(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K),
		uint16(unix.BPF_RET|unix.BPF_K)
	filter := []unix.SockFilter{
		{Code: load}, // the number of the call
		{Code: equal, K: unix.SYS_OPENAT2, Jf: 1},
		{Code: returns, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: returns, K: unix.SECCOMP_RET_ALLOW},
	}
	runtime.LockOSThread() // the filter is the thread's
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(program)))
	if errno != 0 {
		return errno
	}
	return unix.Exec(args[0], args, os.Environ())
}

// TestCommandsRunInTheHardenedUnit: at the level that the unit of systemd asks for.
func TestCommandsRunInTheHardenedUnit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	program, err := os.Executable()
	check(t, errors.Join(err, os.Symlink(program, file("hardened")), os.Symlink(program, file("reprise")),
		os.Mkdir(file("work"), 0o700)))
	d, err := startProgram(&daemonSpec{
		path: file("hardened"), dir: dir, log: file("log"),
		args: []string{
			"hardened", file("reprise"), "serve", "--listen", "127.0.0.1:0", "--data", file("data"),
			"--least-isolation", "landlock", "--writable", file("work"),
		},
	})
	check(t, err)
	t.Cleanup(func() { _ = d.kill() })
	run := exec.Command(file("reprise"), "run", "--url", "http://"+d.addr, "--token-file", file("data/token"),
		"--", "sh", "-c", "echo it runs; ! cat "+file("data/token"))
	run.Dir = file("work")
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "it runs\n") {
		t.Fatalf("%v: %s", err, out)
	}
}
