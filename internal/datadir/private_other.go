//go:build !linux

package datadir

import (
	"io/fs"
	"runtime"
)

// OthersMayRead reports whether the mode of a file lets other users access it. Windows has no such modes.
func OthersMayRead(_ string, info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}
