package files

import (
	"io/fs"
	"syscall"
	"time"
)

// identityOf is the number of the file's device and of the file on it, and the time at which anything about it was
// changed last.
func identityOf(info fs.FileInfo) (device, inode uint64, changed time.Time) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, info.ModTime()
	}
	return uint64(st.Dev), st.Ino, time.Unix(st.Ctim.Unix())
}
