package testserver

import "syscall"

// EndWithParent has the kernel end a process when the thread ends that has started it. That thread is to be locked to
// its goroutine until then.
func EndWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
