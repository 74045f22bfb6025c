package files

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"reprise"
	"reprise/internal/problem"
)

var (
	// ErrChanged means that a file has changed since it was opened.
	ErrChanged = fmt.Errorf("%w: the file has changed while it was read", reprise.ErrConflict)
	// ErrDenied means that the operating system forbids the access, or that a link leads out of its root.
	ErrDenied error = denied("not allowed")
)

type denied string

func (d denied) Error() string { return string(d) }

// Problem implements problem.Teller.
func (denied) Problem(detail string) problem.Problem {
	return problem.New(problem.CodeForbidden, detail)
}

// OffsetError refuses bytes of an upload that do not continue it.
type OffsetError struct {
	// Offset is the number of bytes that the upload has.
	Offset int64
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("the upload has %d bytes: go on there", e.Offset)
}

// Problem implements problem.Teller.
func (e *OffsetError) Problem(string) problem.Problem {
	p := problem.New(problem.CodeConflict, e.Error())
	p.Offset = &e.Offset
	return p
}

// Unwrap returns reprise.ErrConflict.
func (e *OffsetError) Unwrap() error { return reprise.ErrConflict }

// mapped converts an error of the operating system about the file that callers know as name. Parts of the system's
// message that lie above the root are left out.
func mapped(name string, err error) error {
	if err == nil {
		return nil
	}
	say := func(kind error, text string) error { return fmt.Errorf("%w: %q %s", kind, name, text) }
	errno, ofSystem := errors.AsType[syscall.Errno](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return say(reprise.ErrNotFound, "does not exist")
	case errors.Is(err, fs.ErrExist) && errno != syscall.ENOTEMPTY:
		return say(reprise.ErrConflict, "exists")
	case errors.Is(err, fs.ErrPermission):
		return say(ErrDenied, "is not the server's to use like this")
	case !ofSystem && isPathError(err):
		return say(ErrDenied, "leads out of its root by a symbolic link")
	}
	switch errno {
	case syscall.ENOTDIR:
		return say(reprise.ErrNotFound, "has something on its way that is no directory")
	case syscall.ENOTEMPTY:
		return say(reprise.ErrConflict, "is a directory that is not empty")
	case syscall.EISDIR:
		return say(reprise.ErrConflict, "is a directory")
	case syscall.EBUSY, syscall.ETXTBSY:
		return say(reprise.ErrConflict, "is in use")
	case syscall.ELOOP:
		return say(ErrDenied, "is a symbolic link that leads nowhere")
	case syscall.EXDEV:
		return say(reprise.ErrConflict, "is on another file system")
	case syscall.ENAMETOOLONG, syscall.EINVAL, syscall.EILSEQ:
		return &FieldError{"path", "the file system does not take the name"}
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return fmt.Errorf("%w: %w", reprise.DiskFull, err)
	case syscall.EROFS:
		return say(ErrDenied, "is on a file system that is read-only")
	case syscall.EMFILE, syscall.ENFILE:
		return fmt.Errorf("%w: %w", reprise.ErrUnavailable, err)
	}
	return err
}

// isPathError reports whether err is about a path: os.Root has no error value for a path that leads out.
func isPathError(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return true
	}
	_, ok := errors.AsType[*linkError](err)
	return ok
}
