package datadir

import (
	"fmt"
	"os"
	"strings"
)

// CheckPrivate refuses a secret that others may read. otherwise says how to replace it.
func CheckPrivate(path, otherwise string) error {
	info, err := os.Stat(path)
	if err != nil || !OthersMayRead(path, info) {
		return err
	}
	return fmt.Errorf("%s may be read by others (%v): chmod 600 it, and %s", path, info.Mode(), otherwise)
}

// Folder is the name of a folder that stands for a name and for no other, also where file systems do not tell upper
// case from lower case. Bytes but lower-case letters, digits, '-', '_', '@' and '.', which is not the first, are
// written as % and two digits.
func Folder(name string) string {
	var folder strings.Builder
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '@' || c == '.' && i > 0 {
			folder.WriteByte(c)
		} else {
			fmt.Fprintf(&folder, "%%%02x", c)
		}
	}
	return folder.String()
}
