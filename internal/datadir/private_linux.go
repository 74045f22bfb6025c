package datadir

import (
	"encoding/binary"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// OthersMayRead reports whether users other than ours and root may access a file. The mode does not always say so: if a
// file has an access control list, the bits of the group are the mask of all entries of the list. In this way systemd
// grants the user of a service a credential.
func OthersMayRead(path string, info fs.FileInfo) bool {
	switch perm := info.Mode().Perm(); {
	case perm&0o007 != 0:
		return true
	case perm&0o070 == 0:
		return false
	}
	list := make([]byte, 4<<10)
	n, err := unix.Getxattr(path, "system.posix_acl_access", list)
	return err != nil || !grantsOnly(list[:n], uint32(os.Geteuid()))
}

// The tags of the entries of an access control list (linux/posix_acl.h). Those of owner, mask and others need no look.
const (
	aclVersion  = 2
	aclUser     = 0x02
	aclOwnGroup = 0x04
	aclGroup    = 0x08
)

// grantsOnly reports whether an access control list, as the kernel returns it, grants nothing to groups and to users
// other than uid. It has a version in 4 bytes and entries of tag (2 bytes), permissions (2) and id (4), little endian
// (linux/posix_acl_xattr.h).
func grantsOnly(list []byte, uid uint32) bool {
	const head, entry = 4, 8
	if len(list) < head || len(list)%entry != head || binary.LittleEndian.Uint32(list) != aclVersion {
		return false
	}
	for e := list[head:]; len(e) > 0; e = e[entry:] {
		tag, granted := binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint16(e[2:]) != 0
		id := binary.LittleEndian.Uint32(e[4:])
		switch {
		case granted && (tag == aclOwnGroup || tag == aclGroup):
			return false
		case granted && tag == aclUser && id != uid:
			return false
		}
	}
	return true
}
