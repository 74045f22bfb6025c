package files

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"reprise/client"
)

// The types of entries.
const (
	TypeFile      = "file"
	TypeDirectory = "directory"
	TypeSymlink   = "symlink"
	TypeFIFO      = "fifo"
	TypeSocket    = "socket"
	TypeDevice    = "device"
)

// File is an entry of a directory.
type File struct {
	client.File

	// UID and GID are the numbers of its owner and group, -1 where the system has none.
	UID int `json:"-"`
	GID int `json:"-"`

	raw   string // the path with all bytes
	inode [2]uint64
	// changed is the time of the last change of the file or its metadata. unsettled means that the file was read so
	// soon afterwards that a later change would not show in its times.
	changed   time.Time
	unsettled bool
}

// newFile returns the File that info describes.
func newFile(in *root, rel string, info fs.FileInfo) File {
	return newFileAt(in, in.join(rel), rel, info)
}

// newFileAt returns the File that info describes, at rel in dir and with the external path raw.
func newFileAt(dir *root, raw, rel string, info fs.FileInfo) File {
	device, inode, changed := identityOf(info)
	f := File{raw: raw, inode: [2]uint64{device, inode}, changed: changed, File: client.File{
		Path: raw, Type: typeOf(info.Mode()), Mode: fmt.Sprintf("%04o", info.Mode().Perm()),
		Modified: client.Time{Time: info.ModTime()},
	}}
	f.UID, f.GID = ownersOf(info)
	if !utf8.ValidString(raw) {
		f.Path = strings.ToValidUTF8(raw, "\uFFFD")
		f.PathBase64 = []byte(raw)
	}
	switch f.Type {
	case TypeFile:
		f.Size, f.ETag = info.Size(), etag(info)
	case TypeSymlink:
		target, _ := dir.Readlink(rel) // empty if it is gone
		f.Target = strings.ToValidUTF8(target, "\uFFFD")
	}
	return f
}

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return TypeFile
	case mode.IsDir():
		return TypeDirectory
	case mode&fs.ModeSymlink != 0:
		return TypeSymlink
	case mode&fs.ModeNamedPipe != 0:
		return TypeFIFO
	case mode&fs.ModeSocket != 0:
		return TypeSocket
	}
	return TypeDevice
}

// etag returns a strong validator (RFC 9110, section 8.8.3) of the file's identity, size and time of change.
func etag(info fs.FileInfo) string {
	device, inode, changed := identityOf(info)
	text := fmt.Sprintf("%d %d %d %d %d", device, inode, info.Size(), info.ModTime().UnixNano(), changed.UnixNano())
	sum := sha256.Sum256([]byte(text))
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// parseMode parses permissions such as "0644".
func parseMode(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, &FieldError{"mode", "octal permissions from 0000 to 0777 are taken"}
	}
	return fs.FileMode(mode), nil
}
