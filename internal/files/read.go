package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"reprise"
)

const (
	// tick exceeds the resolution of time stamps in Linux file systems: the next write to a file that has been
	// unchanged for that long changes its time.
	tick = 25 * time.Millisecond
	// settling bounds the wait for a file that is being written.
	settling = time.Second
	// chunk is the size of a read or write.
	chunk = 256 << 10
)

// Content is an open file whose bytes, as read, all belong to the same version. It must be closed.
type Content struct {
	// File is the version.
	File File
	f    *os.File
	etag string
}

// Content opens a file for reading. Symbolic links are followed within the root. The error wraps ErrChanged if the file
// is written continuously, and is a *FieldError if p is not a file.
func (r *Roots) Content(ctx context.Context, p string) (*Content, error) {
	in, rel, err := r.resolve("path", p)
	if err != nil {
		return nil, err
	}
	f, err := in.openFile(rel)
	if err != nil {
		return nil, mapped(p, err)
	}
	info, err := settled(ctx, f)
	if err != nil {
		f.Close()
		return nil, mapped(p, err)
	}
	return &Content{newFile(in, rel, info), f, etag(info)}, nil
}

// openFile opens a regular file, and nothing whose opening would block or have an effect.
func (in *root) openFile(rel string) (*os.File, error) {
	info, err := in.Stat(rel)
	if err != nil {
		return nil, err
	}
	if err := mustBeFile(info); err != nil {
		return nil, err
	}
	f, err := in.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO may have replaced it
	if err != nil {
		return nil, err
	}
	info, err = f.Stat()
	if err == nil {
		err = mustBeFile(info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func mustBeFile(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return &FieldError{"path", fmt.Sprintf("a file is expected, and this is a %s", typeOf(info.Mode()))}
	}
	return nil
}

// settled waits until a write that happens now would show in the times of the file.
func settled(ctx context.Context, f *os.File) (fs.FileInfo, error) {
	for deadline := time.Now().Add(settling); ; {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		_, _, changed := identityOf(info)
		age := time.Since(changed)
		if age >= tick || age < -settling { // a time in the future does not help
			return info, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: it is being written to", ErrChanged)
		}
		select {
		case <-time.After(tick - max(age, 0)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ReadAt implements io.ReaderAt. It fails with ErrChanged, without data, once the file is another version.
func (c *Content) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.f.ReadAt(p, at)
	if same := c.unchanged(); same != nil {
		return 0, same
	}
	if err != nil && err != io.EOF { //nolint:errorlint // of os.File, never wrapped
		return 0, mapped(c.File.Path, err)
	}
	return n, err
}

func (c *Content) unchanged() error {
	info, err := c.f.Stat()
	if err != nil {
		return err
	}
	if etag(info) != c.etag {
		return ErrChanged
	}
	return nil
}

// Close closes the file.
func (c *Content) Close() error { return c.f.Close() }

// Sum returns the SHA-256 of all bytes in hexadecimal.
func (c *Content) Sum(ctx context.Context) (string, error) {
	return sum(ctx, io.NewSectionReader(c, 0, c.File.Size))
}

// sum returns the SHA-256 of r. It stops when ctx is done.
func sum(ctx context.Context, r io.Reader) (string, error) {
	hash := sha256.New()
	if _, err := io.CopyBuffer(hash, &untilDone{ctx, r}, make([]byte, chunk)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// untilDone is a reader that fails when its context is done.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// checkSum returns an error unless text is a SHA-256 in hexadecimal.
func checkSum(text string) error {
	if raw, err := hex.DecodeString(text); err != nil || len(raw) != sha256.Size {
		return &FieldError{"sha256", "64 hexadecimal digits are taken"}
	}
	return nil
}

// errDirectory is the error for a file in place of a directory.
func errDirectory(p string) error { return fmt.Errorf("%w: %q is a directory", reprise.ErrConflict, p) }
