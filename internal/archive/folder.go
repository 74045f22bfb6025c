package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"

	"reprise"
)

// Folder is a Place on a disk. Files and folders are readable for their owner alone.
type Folder struct {
	root *os.Root
}

// OpenFolder opens the folder at path, and creates a missing one.
func OpenFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &Folder{root}, nil
}

// temporary marks the names of incomplete files. Other names do not contain it.
const temporary = "~"

// Create writes a file under another name, syncs and renames it, and then syncs the changed folders. A crash may leave
// a file under the other name, which is not visible as a file of the Place.
func (f *Folder) Create(ctx context.Context, name string, write func(io.Writer) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.create(name, write); err != nil {
		return err
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if err := f.sync(dir); err != nil || dir == "." {
			return err
		}
	}
}

func (f *Folder) create(name string, write func(io.Writer) error) (err error) {
	if err := f.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return placeError(err)
	}
	part := name + temporary + rand.Text()
	file, err := f.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return placeError(err)
	}
	defer func() {
		if err != nil {
			_ = f.root.Remove(part)
		}
	}()
	w := &diskWriter{file: file}
	err = write(w)
	if w.err != nil {
		err = placeError(w.err)
	}
	if err == nil {
		err = placeError(file.Sync())
	}
	if closed := file.Close(); err == nil {
		err = placeError(closed)
	}
	if err == nil {
		err = placeError(f.root.Rename(part, name))
	}
	return err
}

// diskWriter keeps the error of the disk apart from the writer's errors.
type diskWriter struct {
	file *os.File
	err  error
}

func (w *diskWriter) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	if err != nil {
		w.err = err
	}
	return n, err
}

// sync makes the names in a folder durable.
func (f *Folder) sync(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return placeError(err)
	}
	defer d.Close()
	return placeError(d.Sync())
}

// placeError maps an error of the disk: a full one, one that is not mounted, a folder that may not be
// written may all be mended.
func placeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %v", reprise.ErrNotFound, err)
	case errors.Is(err, os.ErrClosed):
		return reprise.ErrClosed
	}
	return fmt.Errorf("%w: %v", reprise.ErrUnavailable, err)
}

// diskFile is an open file with its size.
type diskFile struct {
	*os.File
	size int64
}

// Size returns its length in bytes.
func (f *diskFile) Size() int64 { return f.size }

// Open opens a file.
func (f *Folder) Open(ctx context.Context, name string) (PlacedFile, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, placeError(err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, placeError(err)
	}
	return &diskFile{file, info.Size()}, nil
}

// List yields names; see Place. The folder in which the prefix ends is walked, with all below it.
func (f *Folder) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		dir := "."
		if slash := strings.LastIndexByte(prefix, '/'); slash >= 0 {
			dir = prefix[:slash]
		}
		err := fs.WalkDir(f.root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case entry.IsDir() && name != dir && !strings.HasPrefix(name+"/", prefix):
				return fs.SkipDir
			case !entry.Type().IsRegular() || !strings.HasPrefix(name, prefix) || strings.Contains(name, temporary):
				return nil
			case !yield(name, nil):
				return fs.SkipAll
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			err = placeError(err)
		}
		if err != nil {
			yield("", err)
		}
	}
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }
