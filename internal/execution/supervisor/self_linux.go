package supervisor

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"reprise/internal/spawn"
)

// supported: there can be supervisors here.
const supported = true

// startSupervisor starts a supervisor.
func startSupervisor(s *spawn.Spawner) (*os.Process, net.Conn, error) {
	return StartSelf(s, startDrowsy, "/proc/self/exe", Name, os.ProcAttr{
		Dir: "/", Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// StartSelf starts this very program as a process whose first argument is name, and whose stdin is connected to conn.
// start is as for spawn.Spawner.StartBy, with path, and attr without files.
func StartSelf(s *spawn.Spawner, start func(string, []string, *os.ProcAttr) (*os.Process, error), path, name string,
	attr os.ProcAttr,
) (process *os.Process, conn net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near end"), os.NewFile(uintptr(fds[1]), "far end")
	defer far.Close()
	conn, err = net.FileConn(near)
	_ = near.Close()
	if err != nil {
		return nil, nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer null.Close()
		attr.Env, attr.Files = append(environ(), attr.Env...), []*os.File{far, null, null}
		process, err = s.StartBy(start, path, []string{name}, &attr)
	}
	if err != nil {
		_ = conn.Close()
	}
	return process, conn, err
}

// environ returns the environment of supervisors. It contains none of our variables except those of instrumented
// builds, because commands must not find them there.
func environ() []string {
	env := []string{"GOMAXPROCS=1"} // see narrowBytes
	for _, name := range []string{"GOCOVERDIR", "GORACE"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}
