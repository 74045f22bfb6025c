//go:build unix

package durable

import (
	"io/fs"
	"syscall"
)

// owner returns the user and the group of a file, or -1 where they are unknown.
func owner(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}
