package testserver

import "syscall"

// EndWithParent has the kernel end a process when the thread that has started it ends.
func EndWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
