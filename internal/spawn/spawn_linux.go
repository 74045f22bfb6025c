package spawn

import (
	"math"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Spawner starts processes on one OS thread that lives until Close. It is safe for concurrent use.
type Spawner struct {
	jobs chan func()
	done sync.WaitGroup
}

// New makes a Spawner, which must be closed.
func New() *Spawner {
	s := &Spawner{jobs: make(chan func())}
	s.done.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // the thread goes on; ending it would kill what is left
		for job := range s.jobs {
			job()
		}
	})
	return s
}

// Start is os.StartProcess on the thread of the Spawner. No descriptor of ours
// reaches the process but those in attr, not even one that we inherited ourselves.
func (s *Spawner) Start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return s.StartBy(os.StartProcess, path, argv, attr)
}

// StartBy is Start with a function that does what os.StartProcess does.
func (s *Spawner) StartBy(start func(string, []string, *os.ProcAttr) (*os.Process, error),
	path string, argv []string, attr *os.ProcAttr,
) (p *os.Process, err error) {
	started := make(chan struct{})
	s.jobs <- func() {
		defer close(started)
		_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 there is no such call
		p, err = start(path, argv, attr)
	}
	<-started
	return p, err
}

// Close lets the thread go. Start must not be called any more.
func (s *Spawner) Close() {
	close(s.jobs)
	s.done.Wait()
}
