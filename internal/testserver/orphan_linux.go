package testserver

import "syscall"

// endWithParent has the kernel end a process when the thread that has started it ends.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
