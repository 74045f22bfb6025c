//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// environment is held while TMPDIR of the process is changed.
var environment sync.Mutex

// disk is a folder on its own in-memory file system, which can be filled. If that cannot be mounted, it is an ordinary
// folder, which cannot be filled.
type disk struct {
	dir     string
	mounted bool
}

func openDisk(dir string, size int64) (*disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d := &disk{dir: dir}
	if os.Getuid() == 0 {
		d.mounted = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=1777", size)) == nil
	}
	return d, nil
}

// within calls f with TMPDIR set to the disk, so that the servers of testserver have their folders there.
func (d *disk) within(f func() error) error {
	environment.Lock()
	defer environment.Unlock()
	before, set := os.LookupEnv("TMPDIR")
	if err := os.Setenv("TMPDIR", d.dir); err != nil {
		return err
	}
	err := f()
	if set {
		return errors.Join(err, os.Setenv("TMPDIR", before))
	}
	return errors.Join(err, os.Unsetenv("TMPDIR"))
}

func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill uses all free space.
func (d *disk) fill() error {
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); ; {
		n, err := f.Write(block)
		if errors.Is(err, syscall.ENOSPC) && n == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		if n < len(block) {
			block = make([]byte, 4096)
		}
	}
}

// free releases the space that fill has used.
func (d *disk) free() error {
	err := os.Remove(d.filler())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (d *disk) close() error {
	if !d.mounted {
		return nil
	}
	return syscall.Unmount(d.dir, syscall.MNT_DETACH)
}
