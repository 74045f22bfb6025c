package datadir

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// aclEntry is one entry of an access control list.
type aclEntry struct {
	tag, perm uint16
	id        uint32
}

func aclText(entries ...aclEntry) []byte {
	text := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range entries {
		text = binary.LittleEndian.AppendUint16(text, e.tag)
		text = binary.LittleEndian.AppendUint16(text, e.perm)
		text = binary.LittleEndian.AppendUint32(text, e.id)
	}
	return text
}

// TestSecretGrantedByList: a token that an access control list grants to our user alone is private, though its mode has
// a bit of the group, and one that is granted to anybody else is not.
func TestSecretGrantedByList(t *testing.T) {
	const none = ^uint32(0)
	us, noGroup := uint32(os.Geteuid()), aclEntry{aclOwnGroup, 0, none}
	owner, mask, others := aclEntry{1, 4, none}, aclEntry{0x10, 4, none}, aclEntry{0x20, 0, none}
	granted, ownGroup := aclEntry{aclUser, 4, us}, aclEntry{aclOwnGroup, 4, none}
	for name, c := range map[string]struct {
		list    []byte
		private bool
	}{
		"as systemd grants a credential": {aclText(owner, granted, noGroup, mask, others), true},
		"another user":                   {aclText(owner, aclEntry{aclUser, 4, us + 1}, noGroup, mask, others), false},
		"the group of the file":          {aclText(owner, granted, ownGroup, mask, others), false},
		"another group":                  {aclText(owner, noGroup, aclEntry{aclGroup, 4, 7}, mask, others), false},
		"a user who is granted nothing":  {aclText(owner, aclEntry{aclUser, 0, us + 1}, noGroup, mask, others), true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			check(t, os.WriteFile(path, []byte("x"), 0o400))
			if err := unix.Setxattr(path, "system.posix_acl_access", c.list, 0); errors.Is(err, unix.EOPNOTSUPP) {
				t.Skip("the file system has no access control lists")
			} else {
				check(t, err)
			}
			info, err := os.Stat(path)
			check(t, err)
			if info.Mode().Perm()&0o070 == 0 {
				t.Fatalf("the mode is %v, without the mask of the list", info.Mode())
			}
			if OthersMayRead(path, info) == c.private {
				t.Errorf("others may read it: %v", c.private)
			}
		})
	}
}

// TestSecretOfGroup: without a list the mode counts, and a list that is cut is no permission.
func TestSecretOfGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o440: true, 0o640: true, 0o604: true} {
		check(t, os.WriteFile(path, []byte("x"), 0o600))
		check(t, os.Chmod(path, mode))
		info, err := os.Stat(path)
		check(t, err)
		if OthersMayRead(path, info) != want {
			t.Errorf("mode %v: others may read it: %v", mode, !want)
		}
		check(t, os.Remove(path))
	}
	lists := []string{"", "\x02\x00\x00", "\x02\x00\x00\x00\x01", "\x01\x00\x00\x00", strings.Repeat("\x02", 12)}
	for _, list := range lists {
		if grantsOnly([]byte(list), 1) {
			t.Errorf("%q grants to nobody else", list)
		}
	}
}
