package execution

import (
	"math"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// spawner starts processes on one OS thread that lives as long as the Host. A
// process asks the kernel to be killed when its parent dies, and to the kernel the
// parent is the thread: any other thread of ours may end at any time.
type spawner struct {
	jobs chan func()
	done sync.WaitGroup
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func())}
	s.done.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // the thread goes on; ending it would kill what is left
		for job := range s.jobs {
			job()
		}
	})
	return s
}

// start is os.StartProcess on the thread of the spawner. No descriptor of ours
// reaches the process but those in attr, not even one that we inherited ourselves.
func (s *spawner) start(path string, argv []string, attr *os.ProcAttr) (p *os.Process, err error) {
	started := make(chan struct{})
	s.jobs <- func() {
		defer close(started)
		_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 there is no such call
		p, err = os.StartProcess(path, argv, attr)
	}
	<-started
	return p, err
}

func (s *spawner) close() {
	close(s.jobs)
	s.done.Wait()
}
