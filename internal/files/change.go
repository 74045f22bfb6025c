package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"reprise"
)

// MakeDirectory makes a directory and, with parents, the missing ones above it. mode "" means "0755". With parents, an
// existing directory is not an error.
func (r *Roots) MakeDirectory(p, mode string, parents bool) (File, error) {
	in, rel, err := r.resolve("path", p)
	if err != nil {
		return File{}, err
	}
	perm := fs.FileMode(0o755)
	if mode != "" {
		if perm, err = parseMode(mode); err != nil {
			return File{}, err
		}
	}
	if parents {
		err = in.MkdirAll(rel, perm)
	} else {
		err = in.Mkdir(rel, perm)
	}
	if err == nil && mode != "" {
		err = in.Chmod(rel, perm) // regardless of the umask
	}
	if err != nil {
		return File{}, mapped(p, err)
	}
	return r.Show(p)
}

// SetMode sets the permissions of a file or directory. A symbolic link is refused: it has none of its own.
func (r *Roots) SetMode(p, mode string) (File, error) {
	in, rel, err := r.resolve("path", p)
	if err != nil {
		return File{}, err
	}
	perm, err := parseMode(mode)
	if err != nil {
		return File{}, err
	}
	info, err := in.Lstat(rel)
	if err != nil {
		return File{}, mapped(p, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return File{}, &FieldError{"path", "a symbolic link has no permissions of its own"}
	}
	if err := in.Chmod(rel, perm); err != nil {
		return File{}, mapped(p, err)
	}
	return r.Show(p)
}

// Remove removes an entry, and with recursive a directory including its contents. A missing entry is not an error.
func (r *Roots) Remove(p string, recursive bool) error {
	in, rel, err := r.resolve("path", p)
	switch {
	case err != nil:
		return err
	case rel == ".":
		return &FieldError{"path", "a root is not removed"}
	}
	if recursive {
		err = in.RemoveAll(rel)
	} else {
		err = in.Remove(rel)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return mapped(p, err)
}

// Move moves an entry within its root. With overwrite it replaces an existing file; without it that is a conflict.
func (r *Roots) Move(from, to string, overwrite bool) (File, error) {
	in, source, err := r.resolve("from", from)
	if err != nil {
		return File{}, err
	}
	other, target, err := r.resolve("to", to)
	switch {
	case err != nil:
		return File{}, err
	case in != other:
		return File{}, &FieldError{"to", "it is in another root: copy and remove"}
	case source == "." || target == ".":
		return File{}, &FieldError{"from", "a root is not moved"}
	case strings.HasPrefix(target+"/", source+"/") && target != source:
		return File{}, &FieldError{"to", "a directory is not moved into itself"}
	}
	info, err := in.Lstat(source)
	if err != nil {
		return File{}, mapped(from, err)
	}
	if overwrite {
		err = in.Rename(source, target)
	} else {
		err = in.renameNew(source, target, info.IsDir())
	}
	if err != nil {
		return File{}, mapped(to, err)
	}
	return r.Show(to)
}

// renameNew renames without replacing anything. A hard link is created only if the target does not exist, which a
// rename does not guarantee. Directories, and file systems without links, are checked before the rename.
func (in *root) renameNew(source, target string, directory bool) error {
	if !directory {
		err := in.Link(source, target)
		if err == nil {
			return in.Root.Remove(source)
		}
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM) {
			return err
		}
	}
	if _, err := in.Lstat(target); err == nil {
		return &fs.PathError{Op: "rename", Path: target, Err: syscall.EEXIST}
	}
	return in.Rename(source, target)
}

// syncDir makes a change of names in a directory durable.
func (in *root) syncDir(rel string) error {
	dir, err := in.Root.Open(rel)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some file systems do not support it
	}
	return errors.Join(err, dir.Close())
}

// checkPlace refuses an upload into a missing directory or over an entry that is not a file.
func (in *root) checkPlace(rel, p string, u *Upload) (there fs.FileInfo, err error) {
	parent := path.Dir(rel)
	if rel == "." {
		return nil, errDirectory(p)
	}
	info, err := in.Stat(parent)
	switch {
	case errors.Is(err, fs.ErrNotExist) && u.Parents:
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: parent, Err: syscall.ENOTDIR}
	}
	there, err = in.Lstat(rel)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case there.IsDir():
		return nil, errDirectory(p)
	case !there.Mode().IsRegular() && there.Mode()&fs.ModeSymlink == 0:
		return nil, fmt.Errorf("%w: %q is a %s", reprise.ErrConflict, p, typeOf(there.Mode()))
	}
	return there, nil
}
