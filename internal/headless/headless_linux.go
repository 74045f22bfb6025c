// Package headless is for tests of what ends processes. It makes a test program a process whose first thread has ended
// while another one goes on. The kernel shows such a process as a zombie.
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

// Run does not return if Env is set in the environment. TestMain calls it first.
func Run() {
	mode := os.Getenv(Env)
	if mode == "" {
		return
	}
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
	endFirstThread()
}

// endFirstThread keeps its thread, so that the next goroutine runs on another one, until it is on the first.
func endFirstThread() {
	runtime.LockOSThread()
	if syscall.Gettid() == os.Getpid() {
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // ends the thread alone
	}
	go endFirstThread()
	select {}
}
