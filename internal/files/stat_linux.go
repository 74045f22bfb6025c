package files

import (
	"io/fs"
	"syscall"
	"time"
)

// identityOf returns the device and inode of a file and the time of the last change of its data or metadata.
func identityOf(info fs.FileInfo) (device, inode uint64, changed time.Time) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, info.ModTime()
	}
	return uint64(st.Dev), st.Ino, time.Unix(st.Ctim.Unix())
}

// ownersOf returns the numbers of the owner and the group of a file.
func ownersOf(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return -1, -1
}
