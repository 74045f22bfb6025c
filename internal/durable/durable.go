// Package durable writes small files that are complete or absent after a crash of the machine.
package durable

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// syncFile waits until a file, or the names in a directory, are on the disk. Tests record its calls.
var syncFile = (*os.File).Sync

// Write writes a file that only its owner can access, or replaces it. It returns when the file is on the disk.
// Concurrent calls for one path are not safe.
func Write(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := finish(f, data); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return Rename(f.Name(), path)
}

// Replace is Write for a regular file that exists. It keeps its mode and its owner. The directory may belong to a user
// who has put links into it: none is followed.
func Replace(path string, data []byte) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "replace", Path: path, Err: errors.New("it is no regular file")}
	}
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	err = f.Chmod(info.Mode().Perm())
	if uid, gid := owner(info); uid >= 0 {
		err = errors.Join(err, f.Chown(uid, gid))
	}
	if err := errors.Join(err, finish(f, data)); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return Rename(f.Name(), path)
}

// Create is Write for a file that other processes may create at the same time. A file that exists is left unchanged,
// without an error.
func Create(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := finish(f, data); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func finish(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = syncFile(f)
	}
	return errors.Join(err, f.Close())
}

// Rename renames a file within its directory. It returns when the new name is on the disk.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir waits until new names in a directory are on the disk. Windows cannot sync a directory.
func SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = syncFile(dir)
	if errors.Is(err, fs.ErrInvalid) { // a file system without this operation
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// minSecret is the length of the shortest secret that Secret accepts.
const minSecret = 20

// errNoSecret is the error of ReadSecret for a file that is too short.
var errNoSecret = errors.New("the file holds no secret")

// Secret returns the secret in a file that no other process writes. It replaces a file that is missing or too short,
// as a write that a crash of the machine interrupted may leave it.
func Secret(path string) (string, error) {
	secret, err := ReadSecret(path)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoSecret) {
		return secret, err
	}
	secret = rand.Text()
	return secret, Write(path, []byte(secret+"\n"))
}

// ReadSecret returns the secret in a file.
func ReadSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if secret := strings.TrimSpace(string(text)); len(secret) >= minSecret {
		return secret, nil
	}
	return "", &fs.PathError{Op: "read", Path: path, Err: errNoSecret}
}
