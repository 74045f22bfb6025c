//go:build !linux

package testserver

import "syscall"

// EndWithParent does nothing: a server outlives a test process that panics.
func EndWithParent(*syscall.SysProcAttr) {}
