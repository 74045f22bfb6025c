//go:build linux || darwin || freebsd || netbsd || openbsd

package artifact

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Identify returns the identities of those paths that exist.
func Identify(paths []string) (list []ID) {
	for _, p := range paths {
		var st unix.Stat_t
		if retry(func() error { return unix.Stat(p, &st) }) == nil {
			list = append(list, idOf(&st))
		}
	}
	return list
}

// Open opens the directory, before the command is started. From then on its name does not matter. If it cannot be
// opened, Collect says why.
func (c *Collection) Open() {
	if c.openDir() {
		c.Place, _ = idOfOpen(c.dir)
	}
}

// OpenAgain opens the directory that an earlier process has opened. Another directory under its name is not used.
func (c *Collection) OpenAgain() {
	if !c.openDir() {
		return
	}
	if id, err := idOfOpen(c.dir); err != nil || id != c.Place {
		c.Close()
		c.lacks = "the working directory is not the same as when the command was started"
	}
}

func (c *Collection) openDir() bool {
	err := retry(func() error {
		// Without O_DIRECTORY and O_NONBLOCK, a FIFO waits for its writer.
		fd, err := unix.Open(c.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			c.dir = os.NewFile(uintptr(fd), c.Dir)
		}
		return err
	})
	if err != nil {
		c.lacks = fmt.Sprintf("the working directory cannot be read: %v", err)
	}
	return err == nil
}

// Close closes the directory.
func (c *Collection) Close() {
	if c.dir != nil {
		_ = c.dir.Close()
		c.dir = nil
	}
}

// errSearchSlow is why no files were found.
var errSearchSlow = errors.New("the files were not found within the time for it")

// Collect calls keep with the bytes of each file, chunk by chunk, and returns the files in the order in which they
// came. The notes say what was left out. Links, what is no regular file, and what is hidden do not count as files. The
// error is that of keep, or the cause of the end of ctx, or says that Patience was not enough.
func (c *Collection) Collect(ctx context.Context, keep func(chunk []byte) error) (
	files []File, notes []string, err error,
) {
	if c.dir == nil {
		return nil, []string{c.lacks}, nil
	}
	hidden := append(Identify(c.Hidden), c.Masked...)
	if reason := lies(c.dir, hidden); reason != "" {
		return nil, []string{reason}, nil
	}
	patience := cmp.Or(c.patience, Patience)
	searching, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("%w: %v", errSearchSlow, patience))
	defer cancel()
	s := search{ctx: searching, hidden: hidden}
	if err := s.find(c.dir, c.Patterns); err != nil {
		return nil, nil, err
	}
	room := c.MaxBytes
	for _, name := range s.names {
		switch {
		case len(files) == MaxFiles:
			return files, append(s.notes, fmt.Sprintf("more than %d files", MaxFiles)), nil
		case len(s.notes) >= maxNotes:
			return files, append(s.notes, "and more"), nil
		}
		f, size := c.open(name, hidden)
		switch {
		case f == nil: // it has gone
		case size > room:
			_ = f.Close()
			s.notes = append(s.notes, fmt.Sprintf("%s: %d bytes, more than there is room for", name, size))
		default:
			sum, err := read(ctx, f, size, keep)
			_ = f.Close()
			if err != nil {
				return files, s.notes, err
			}
			room -= size
			files = append(files, File{Path: name, Size: size, SHA256: sum})
		}
	}
	return files, s.notes, nil
}

// open opens a file that a search has found, and returns its size. It returns nil for anything else that has its name
// by now.
func (c *Collection) open(name string, hidden []ID) (f *os.File, size int64) {
	at := c.dir
	for {
		element, rest, deeper := strings.Cut(name, "/")
		open := openFile
		if deeper {
			open = openDir
		}
		next, st, err := open(at, element)
		if at != c.dir {
			_ = at.Close()
		}
		if err != nil {
			return nil, 0
		}
		at, name = next, rest
		if deeper && !slices.Contains(hidden, idOf(st)) {
			continue
		}
		if deeper || !isRegular(st) || slices.Contains(hidden, idOf(st)) {
			_ = at.Close()
			return nil, 0
		}
		return at, st.Size
	}
}

// read passes size bytes of a file on, and returns their checksum.
func read(ctx context.Context, f *os.File, size int64, keep func([]byte) error) (checksum string, err error) {
	sum, buf := sha256.New(), make([]byte, ChunkBytes)
	for size > 0 {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		chunk := buf[:min(size, ChunkBytes)]
		// What was announced is kept, and no byte more; a file that is cut meanwhile is filled up with zeros.
		n, err := io.ReadFull(f, chunk)
		if err != nil {
			clear(chunk[n:])
		}
		if err := keep(chunk); err != nil {
			return "", err
		}
		sum.Write(chunk)
		size -= int64(len(chunk))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// openDir opens the directory name in the directory at.
func openDir(at *os.File, name string) (*os.File, *unix.Stat_t, error) {
	return openAt(at, name, unix.O_DIRECTORY|unix.O_RDONLY)
}

// openAt opens name, one element of a path, in the directory at. It follows no link and does not wait.
func openAt(at *os.File, name string, flags int) (*os.File, *unix.Stat_t, error) {
	fd, st := -1, &unix.Stat_t{}
	err := retry(func() (err error) {
		flags := flags | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
		fd, err = unix.Openat(int(at.Fd()), name, flags, 0)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if err := retry(func() error { return unix.Fstat(fd, st) }); err != nil {
		_ = unix.Close(fd)
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), name), st, nil
}

// lookAt returns what name is in the directory at, without opening it.
func lookAt(at *os.File, name string) (*unix.Stat_t, error) {
	st := &unix.Stat_t{}
	err := retry(func() error { return unix.Fstatat(int(at.Fd()), name, st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// maxAbove bounds the directories above the working directory.
const maxAbove = 1000

// lies returns why a directory is not read that is hidden or lies in a hidden one, or "". A command can move neither a
// hidden directory nor what is in it, so that no other process can change the answer meanwhile.
func lies(dir *os.File, hidden []ID) (reason string) {
	root := Identify([]string{"/"})
	up := "."
	for range maxAbove {
		st, err := lookAt(dir, up)
		switch {
		case err != nil:
			return fmt.Sprintf("the working directory cannot be found: %v", err)
		case slices.Contains(hidden, idOf(st)):
			return "the working directory is hidden from commands"
		case slices.Contains(root, idOf(st)):
			return ""
		case up == ".":
			up = ".."
		default:
			up += "/.."
		}
	}
	return "the working directory is too deep"
}

func idOfOpen(f *os.File) (ID, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(int(f.Fd()), &st) })
	return idOf(&st), err
}

func idOf(st *unix.Stat_t) ID { return ID{Device: uint64(st.Dev), Inode: st.Ino} }

func isRegular(st *unix.Stat_t) bool { return uint32(st.Mode)&unix.S_IFMT == unix.S_IFREG }

func isDir(st *unix.Stat_t) bool { return uint32(st.Mode)&unix.S_IFMT == unix.S_IFDIR }

// retry repeats a system call that a signal has interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // of a system call itself
			return err
		}
	}
}
