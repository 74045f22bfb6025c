//go:build darwin || freebsd || netbsd || openbsd

package spawn

import (
	"os"
	"strconv"
	"syscall"
)

// Spawner starts processes. It is safe for concurrent use.
type Spawner struct{}

// New makes a Spawner, which must be closed.
func New() *Spawner { return &Spawner{} }

// Start is os.StartProcess. No descriptor of ours reaches the process but those in attr, not even
// one that we inherited ourselves.
func (s *Spawner) Start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return s.StartBy(os.StartProcess, path, argv, attr)
}

// StartBy is Start with a function that does what os.StartProcess does.
func (*Spawner) StartBy(start func(string, []string, *os.ProcAttr) (*os.Process, error),
	path string, argv []string, attr *os.ProcAttr,
) (*os.Process, error) {
	closeOnExec()
	return start(path, argv, attr)
}

// closeOnExec marks our descriptors. Go opens its own so; others may have been inherited.
func closeOnExec() {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// Close does nothing.
func (*Spawner) Close() {}
