package logstore

import (
	"io"
	"os"
	"path/filepath"

	"reprise/store/internal/driver"
)

// disk is the directory of a Store. Tests replace it by one that crashes and fails.
type disk interface {
	// list returns the names of the files.
	list() ([]string, error)
	// open opens a file for reading and writing.
	open(name string) (file, error)
	// create makes a file of size zero bytes, and reserves the space for them if the file system can. The error wraps
	// fs.ErrExist if the file exists.
	create(name string, size int64) (file, error)
	rename(from, to string) error
	remove(name string) error
	// free returns the space that is left, and an error if that is not known.
	free() (int64, error)
	// sync makes the names of created and renamed files durable.
	sync() error
}

// file is a file of a disk. Written data is durable once sync has returned nil. After a failed sync the state of data
// written since the previous sync is unknown.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	sync() error
	driver.ReserveFile
	size() (int64, error)
}

// folder is a directory of the operating system.
type folder string

func (d folder) path(name string) string { return filepath.Join(string(d), name) }

func (d folder) list() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (d folder) open(name string) (file, error) {
	f, err := os.OpenFile(d.path(name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d folder) create(name string, size int64) (file, error) {
	f, err := os.OpenFile(d.path(name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := (osFile{f}).Allocate(size); err != nil {
		_ = f.Close()
		_ = os.Remove(d.path(name))
		return nil, err
	}
	return osFile{f}, nil
}

func (d folder) rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }
func (d folder) remove(name string) error     { return os.Remove(d.path(name)) }
func (d folder) free() (int64, error)         { return driver.FreeBytes(string(d)) }
func (d folder) sync() error                  { return syncFolder(string(d)) }

// osFile is a file of the operating system.
type osFile struct{ *os.File }

func (f osFile) sync() error               { return syncData(f.File) }
func (f osFile) Allocate(size int64) error { return driver.Allocate(f.File, size) }

func (f osFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
