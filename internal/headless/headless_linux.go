// Package headless is for tests of what ends processes. A test program that imports it becomes a process whose first
// thread has ended while another one goes on, if Env is set in its environment. The kernel shows such a process as a
// zombie.
package headless

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Env is Quiet or Loud. The process prints "child PID" once its first thread has ended.
const Env = "REPRISE_TEST_HEADLESS"

// The values of Env.
const (
	Quiet = "quiet"
	Loud  = "loud" // it prints without end
)

func init() { // here the goroutine is on the first thread
	mode := os.Getenv(Env)
	if mode == "" {
		return
	}
	runtime.LockOSThread()
	go func() {
		pause := time.NewTicker(time.Millisecond)
		for first := fmt.Sprintf("/proc/self/task/%d/stat", os.Getpid()); ; <-pause.C {
			if stat, err := os.ReadFile(first); err == nil && bytes.Contains(stat, []byte(") Z ")) {
				break
			}
		}
		fmt.Printf("child %d\n", os.Getpid())
		for range pause.C {
			if mode == Loud {
				fmt.Println("still here")
			}
		}
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // ends the thread alone
}
