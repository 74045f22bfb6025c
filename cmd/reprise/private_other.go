//go:build !linux

package main

import (
	"io/fs"
	"runtime"
)

// othersMayRead reports whether the mode of a file lets other users access it. Windows has no such modes.
func othersMayRead(_ string, info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}
