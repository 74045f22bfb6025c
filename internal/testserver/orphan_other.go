//go:build !linux

package testserver

import "syscall"

// endWithParent does nothing: a server outlives a test process that panics.
func endWithParent(*syscall.SysProcAttr) {}
