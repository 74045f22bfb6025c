//go:build !unix

package testserver

import (
	"errors"
	"os"
	"syscall"
)

// Elsewhere than on Unix the servers are not tested; this lets the tests compile.

type credential struct{ Uid, Gid uint32 }

const (
	signalPause  syscall.Signal = 19
	signalResume syscall.Signal = 18
)

func inGroup(*credential) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func signalProcess(int, syscall.Signal) error { return errors.ErrUnsupported }

func killGroup(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return process.Kill()
}
