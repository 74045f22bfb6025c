//go:build darwin || freebsd || netbsd || openbsd

package spawn

import (
	"os"
	"strconv"
	"syscall"
)

// Spawner starts processes. It is safe for concurrent use.
type Spawner struct{}

// New returns a Spawner, which must be closed.
func New() *Spawner { return &Spawner{} }

// Start is os.StartProcess. The process receives only the descriptors in attr, and none that this process inherited.
func (s *Spawner) Start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return s.StartBy(os.StartProcess, path, argv, attr)
}

// StartBy is Start with a function in place of os.StartProcess.
func (*Spawner) StartBy(start func(string, []string, *os.ProcAttr) (*os.Process, error),
	path string, argv []string, attr *os.ProcAttr,
) (*os.Process, error) {
	closeOnExec()
	return start(path, argv, attr)
}

// closeOnExec marks all descriptors of this process. Go marks those that it opens, but not inherited ones.
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
