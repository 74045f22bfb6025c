package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"reprise"
	"reprise/internal/durable"
)

// maxFileBytes limits how much of a file is read: some 500,000 changes.
const maxFileBytes = 256 << 20

// File is a Journal of one process in the file at path: a line a record, for its owner alone. There may be no such file
// yet.
func File(path string) Journal { return &file{path: path} }

type file struct {
	path string

	mu   sync.Mutex
	take func([]byte) // nil unless it is followed
}

// Follow implements Journal.
func (f *file) Follow(ctx context.Context, sink Sink) error {
	if err := f.load(sink); err != nil {
		return err
	}
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.take = nil
	return context.Cause(ctx)
}

func (f *file) load(sink Sink) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines, err := ReadLines(f.path)
	if err != nil {
		return err
	}
	sink.Begin()
	for line := range bytes.Lines(lines) {
		sink.Take(bytes.TrimSuffix(line, []byte("\n")))
	}
	sink.Ready()
	f.take = sink.Take
	return nil
}

// Append implements Journal.
func (f *file) Append(_ context.Context, record []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.take == nil {
		return fmt.Errorf("%w: the records are not followed", reprise.ErrClosed)
	}
	if err := AppendLine(f.path, record); err != nil {
		return err
	}
	f.take(record)
	return nil
}

// ReadLines reads the complete lines of a file that only its owner may access, or returns nil if the file does not
// exist. It removes an incomplete line after a crash, which was never acknowledged.
func ReadLines(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s may be used by others (%v): chmod 600 it, and review what it grants",
			path, info.Mode())
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("%w: %s has %d bytes", reprise.ErrInvalid, path, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if whole < len(text) {
		if err := os.Truncate(path, int64(whole)); err != nil {
			return nil, err
		}
	}
	return text[:whole], nil
}

// AppendLine appends a line to a file, which it makes if need be, and returns when it is on the disk. Where that fails
// the file is as before.
func AppendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, 2)
	if err == nil {
		if _, err = f.Write(append(bytes.Clone(line), '\n')); err == nil {
			err = f.Sync()
		}
		if err != nil {
			err = errors.Join(err, f.Truncate(size))
		}
	}
	err = errors.Join(err, f.Close())
	if err == nil && size == 0 {
		err = durable.SyncDir(filepath.Dir(path))
	}
	return err
}
