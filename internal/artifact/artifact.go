// Package artifact finds and reads the files of an execution that are kept with it.
package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Collection says which files are kept.
type Collection struct {
	// Dir is where the paths begin.
	Dir string `json:"dir"`
	// Patterns are paths below Dir as of path.Match. One that names a directory means all files below it.
	Patterns []string `json:"patterns"`
	// Hidden are files and directories that are never read.
	Hidden []string `json:"hidden,omitempty"`
	// MaxBytes bounds all files together.
	MaxBytes int64 `json:"max_bytes"`
}

// File is one that was collected.
type File struct {
	// Path is relative to the directory, with slashes.
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

const (
	// MaxPatterns is how many patterns may be asked for.
	MaxPatterns = 32
	// MaxFiles is how many files are kept.
	MaxFiles = 100
	// maxEntries bounds how many names are looked at.
	maxEntries = 100_000
	// ChunkBytes is how large the pieces are that keep is called with, but for the last one of a file.
	ChunkBytes = 64 << 10
)

// Check returns why a pattern cannot be used.
func Check(pattern string) error {
	switch _, err := path.Match(pattern, ""); {
	case err != nil:
		return err
	case pattern == "" || strings.IndexByte(pattern, 0) >= 0:
		return errors.New("is empty or holds a NUL")
	case !fs.ValidPath(strings.TrimSuffix(pattern, "/")):
		return errors.New("is not a path below the working directory")
	}
	return nil
}

// errTooMany ends a walk.
var errTooMany = errors.New("too many")

// Collect calls keep with the bytes of each file, chunk by chunk, and returns the files in the order in which they
// came. The notes say what was left out. Links that lead out of the directory, what is no regular file, and what is
// hidden are left out without a note. The error is that of keep.
func (c *Collection) Collect(keep func(chunk []byte) error) (files []File, notes []string, err error) {
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, []string{err.Error()}, nil
	}
	defer root.Close()
	hidden := infos(c.Hidden)
	for dir := c.Dir; ; dir = filepath.Dir(dir) { // it may lie in what is hidden
		if info, err := os.Stat(dir); err == nil && isOne(hidden, info) {
			return nil, nil, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	names, notes := c.find(root, hidden)
	room := c.MaxBytes
	for _, name := range names {
		if len(files) == MaxFiles {
			return files, append(notes, fmt.Sprintf("more than %d files", MaxFiles)), nil
		}
		file, skipped, err := read(root, name, hidden, room, keep)
		if err != nil {
			return files, notes, err
		}
		switch {
		case skipped != "":
			notes = append(notes, name+": "+skipped)
		case file.Path != "":
			room -= file.Size
			files = append(files, file)
		}
	}
	return files, notes, nil
}

// find returns the names of what the patterns mean, sorted.
func (c *Collection) find(root *os.Root, hidden []fs.FileInfo) (names, notes []string) {
	seen, looked := map[string]bool{}, 0
	for _, pattern := range c.Patterns {
		matches, err := fs.Glob(root.FS(), strings.TrimSuffix(pattern, "/"))
		if err != nil || len(matches) == 0 {
			notes = append(notes, pattern+": no such file")
		}
		for _, match := range matches {
			err := fs.WalkDir(root.FS(), match, func(name string, d fs.DirEntry, err error) error {
				if looked++; looked > maxEntries {
					return errTooMany
				}
				switch {
				case err != nil:
					return nil //nolint:nilerr // what cannot be looked at is left out
				case d.IsDir():
					if info, err := d.Info(); err == nil && isOne(hidden, info) {
						return fs.SkipDir
					}
				case !seen[name]:
					seen[name] = true
					names = append(names, name)
				}
				return nil
			})
			if err != nil {
				return names, append(notes, fmt.Sprintf("more than %d names were looked at", maxEntries))
			}
		}
	}
	slices.Sort(names)
	return names, notes
}

// read keeps one file, of at most room bytes. Where there is nothing to keep the Path is "".
func read(root *os.Root, name string, hidden []fs.FileInfo, room int64, keep func([]byte) error) (
	file File, skipped string, err error,
) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return File{}, "", nil // a link that leads out, or what has gone
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || isOne(hidden, info) || belowHidden(root, name, hidden) {
		return File{}, "", nil // likewise
	}
	if info.Size() > room {
		return File{}, fmt.Sprintf("%d bytes, more than there is room for", info.Size()), nil
	}
	sum, left, buf := sha256.New(), info.Size(), make([]byte, ChunkBytes)
	for left > 0 {
		chunk := buf[:min(left, ChunkBytes)]
		// What was announced is kept, and no byte more; a file that is cut meanwhile is filled up with zeros.
		n, err := io.ReadFull(f, chunk)
		if err != nil {
			clear(chunk[n:])
		}
		if err := keep(chunk); err != nil {
			return File{}, "", err
		}
		sum.Write(chunk)
		left -= int64(len(chunk))
	}
	return File{Path: name, Size: info.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))}, "", nil
}

// belowHidden reports whether a directory on the way to name is hidden, behind links too.
func belowHidden(root *os.Root, name string, hidden []fs.FileInfo) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := root.Stat(dir); err == nil && isOne(hidden, info) {
			return true
		}
	}
	// A link below the directory may lead through a hidden one: then the file lies there.
	real, err := filepath.EvalSymlinks(filepath.Join(root.Name(), filepath.FromSlash(name)))
	if err != nil {
		return true
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && isOne(hidden, info) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

func infos(paths []string) (list []fs.FileInfo) {
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			list = append(list, info)
		}
	}
	return list
}

func isOne(list []fs.FileInfo, info fs.FileInfo) bool {
	return slices.ContainsFunc(list, func(one fs.FileInfo) bool { return os.SameFile(one, info) })
}
