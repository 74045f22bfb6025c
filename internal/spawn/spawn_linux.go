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

// New returns a Spawner, which must be closed.
func New() *Spawner {
	s := &Spawner{jobs: make(chan func())}
	s.done.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // the thread stays: its end would kill the processes
		for job := range s.jobs {
			job()
		}
	})
	return s
}

// Start is os.StartProcess on the thread of the Spawner. The process receives only the descriptors in attr, and none
// that this process inherited.
func (s *Spawner) Start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return s.StartBy(os.StartProcess, path, argv, attr)
}

// StartBy is Start with a function in place of os.StartProcess.
func (s *Spawner) StartBy(start func(string, []string, *os.ProcAttr) (*os.Process, error),
	path string, argv []string, attr *os.ProcAttr,
) (p *os.Process, err error) {
	s.Do(func() {
		_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // fails before Linux 5.11
		p, err = start(path, argv, attr)
	})
	return p, err
}

// Do calls f on the thread of the Spawner, from which processes inherit.
func (s *Spawner) Do(f func()) {
	done := make(chan struct{})
	s.jobs <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Close releases the thread. Start must not be called afterwards.
func (s *Spawner) Close() {
	close(s.jobs)
	s.done.Wait()
}
