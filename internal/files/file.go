package files

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"reprise/internal/wire"
)

// Type is the kind of an entry of a directory.
type Type string

// The types.
const (
	TypeFile      Type = "file"
	TypeDirectory Type = "directory"
	TypeSymlink   Type = "symlink"
	TypeFIFO      Type = "fifo"
	TypeSocket    Type = "socket"
	TypeDevice    Type = "device"
)

// File is an entry of a directory.
type File struct {
	// Path begins with the name of the root. Bytes that are not UTF-8 are replaced in it; PathBase64 then has all
	// bytes.
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
	Type       Type   `json:"type"`
	// Size is the number of bytes of a file, and 0 for everything else.
	Size int64 `json:"size"`
	// Mode are the permissions, for example "0644".
	Mode     string    `json:"mode"`
	Modified wire.Time `json:"modified"`
	// ETag changes whenever the file is changed or replaced. It is "" for entries other than files.
	ETag string `json:"etag,omitempty"`
	// Target is the target of a symbolic link.
	Target string `json:"target,omitempty"`
	// SHA256 is the checksum of a file in hexadecimal, if it was requested.
	SHA256 string `json:"sha256,omitempty"`
	// Line and Text are the number, from 1, and the text of the first line that matches a search.
	Line int    `json:"line,omitempty"`
	Text string `json:"text,omitempty"`

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
	f := File{
		Path: raw, Type: typeOf(info.Mode()), Mode: fmt.Sprintf("%04o", info.Mode().Perm()),
		Modified: wire.Time{Time: info.ModTime()}, raw: raw, inode: [2]uint64{device, inode}, changed: changed,
	}
	f.UID, f.GID = ownersOf(info)
	if !utf8.ValidString(raw) {
		f.Path = strings.ToValidUTF8(raw, "\uFFFD")
		f.PathBase64 = base64.StdEncoding.EncodeToString([]byte(raw))
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

// Name is the last segment of the path.
func (f *File) Name() string { return path.Base(f.raw) }

func typeOf(mode fs.FileMode) Type {
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
