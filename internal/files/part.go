package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"reprise"
)

// partKey identifies an upload in progress.
type partKey struct {
	in     *root
	staged string
}

// part is an upload with current requests.
type part struct {
	partKey
	rel   string // the target
	users int    // guarded by Roots.mu

	mu   sync.Mutex
	turn uint64 // counts the Writes; only the newest one writes
}

// enter returns the part of an upload, creating it if necessary. leave must be called.
func (r *Roots) enter(in *root, rel string, u *Upload) *part {
	key := partKey{in, stagedName(rel, u)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.swept) > sweepEvery {
		r.sweepUploadsLocked(time.Now())
	}
	p := r.parts[key]
	if p == nil {
		p = &part{partKey: key, rel: rel}
		r.parts[key] = p
	}
	p.users++
	return p
}

func (r *Roots) leave(p *part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(r.parts, p.partKey)
	}
}

// begin opens the file that collects the bytes, or reports that the whole file is already present. turn is for copy.
func (p *part) begin(u *Upload, finished func() (Progress, error)) (
	turn uint64, f *os.File, done Progress, err error,
) {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := int64(0)
	info, err := p.in.Lstat(p.staged)
	switch {
	case err == nil:
		have = info.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return 0, nil, Progress{}, err
	case u.isResumable():
		if done, err = finished(); err != nil || done.Complete {
			return 0, nil, done, err
		}
	}
	if u.isResumable() && have != u.Offset {
		return 0, nil, Progress{}, &OffsetError{have}
	}
	if f, err = p.open(); err != nil {
		return 0, nil, Progress{}, err
	}
	p.turn++
	return p.turn, f, Progress{}, nil
}

// open opens the file that collects the bytes.
func (p *part) open() (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE
	f, err := p.in.OpenFile(p.staged, flags, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := p.in.Mkdir(stagingDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return p.in.OpenFile(p.staged, flags, 0o600)
}

// copy writes the bytes of body until its end and returns the size reached.
func (p *part) copy(turn uint64, f *os.File, u *Upload, body io.Reader) (have int64, err error) {
	have = max(u.Offset, 0)
	buf := make([]byte, chunk)
	for {
		n, rerr := body.Read(buf)
		if n > 0 {
			if u.Size >= 0 && have+int64(n) > u.Size {
				return have, &FieldError{"size", "more bytes come than were stated"}
			}
			if err := p.writeAt(turn, f, buf[:n], have); err != nil {
				return have, err
			}
			have += int64(n)
		}
		switch {
		case rerr == io.EOF: //nolint:errorlint // a truncated body wraps io.EOF too
			return have, nil
		case rerr != nil:
			return have, &BodyError{rerr}
		}
	}
}

// writeAt writes b unless another Write has begun.
func (p *part) writeAt(turn uint64, f *os.File, b []byte, at int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn != turn {
		return errSuperseded
	}
	n, err := f.WriteAt(b, at)
	if err != nil && n > 0 {
		// Truncate a partial write, so that the size tells what was accepted.
		err = errors.Join(err, f.Truncate(at))
	}
	return err
}

// BodyError is an error of reading the uploaded bytes.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "the upload was cut off: " + e.Err.Error() }

// Unwrap returns Err and reprise.ErrInvalid.
func (e *BodyError) Unwrap() []error { return []error{e.Err, reprise.ErrInvalid} }

// discard removes the collected bytes.
func (p *part) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove()
}

// remove is discard for callers that hold mu. If it fails, the file is swept later.
func (p *part) remove() { _ = p.in.Root.Remove(p.staged) }

// sweepEvery is the time between two sweeps for abandoned uploads.
const sweepEvery = time.Hour

// sweepUploads removes uploads that have received nothing for KeepUploads.
func (r *Roots) sweepUploads(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepUploadsLocked(now)
}

func (r *Roots) sweepUploadsLocked(now time.Time) {
	r.swept = now
	for _, in := range r.byName {
		dir, err := in.OpenRoot(stagingDir)
		if err != nil {
			continue // none yet
		}
		names, _ := entries(dir.FS())
		for _, name := range names {
			info, err := dir.Lstat(name)
			used := r.parts[partKey{in, path.Join(stagingDir, name)}] != nil
			if err == nil && !used && now.Sub(info.ModTime()) > r.keep {
				_ = dir.Remove(name)
			}
		}
		dir.Close()
	}
}
