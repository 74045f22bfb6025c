package durable

import "io/fs"

// owner returns the user and the group of a file, or -1 where they are unknown.
func owner(fs.FileInfo) (uid, gid int) { return -1, -1 }
