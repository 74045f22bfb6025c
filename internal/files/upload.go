package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"reprise"
)

// Upload is a file to upload. Path, Size and SHA256 identify it: requests with the same three continue the same upload,
// from any client and after any restart.
type Upload struct {
	// Path is where the file will be.
	Path string
	// Offset is the position of the first byte of this request. -1 is an upload in one piece, of which nothing is kept
	// if it is incomplete; it may omit Size and SHA256.
	Offset int64
	// Size is the number of bytes of the whole file, -1 for not stated.
	Size int64
	// SHA256 is the checksum of the whole file in hexadecimal, "" for not stated.
	SHA256 string
	// Mode are the permissions of the file, "" for the permissions of the file that it replaces, or else "0644".
	Mode string
	// Keep refuses to replace an existing file.
	Keep bool
	// Parents creates missing directories above Path.
	Parents bool
}

// Progress is the state of an upload.
type Progress struct {
	// Offset is the number of bytes received so far, and the offset of the next one.
	Offset int64 `json:"offset"`
	// Complete means that the whole file has its final name. File describes it.
	Complete bool  `json:"complete"`
	File     *File `json:"file,omitempty"`
}

// isResumable reports whether the bytes of an incomplete upload are kept.
func (u *Upload) isResumable() bool { return u.Offset >= 0 }

func (u *Upload) check() error {
	if u.SHA256 != "" {
		if err := checkSum(u.SHA256); err != nil {
			return err
		}
		u.SHA256 = strings.ToLower(u.SHA256)
	}
	if u.Mode != "" {
		if _, err := parseMode(u.Mode); err != nil {
			return err
		}
	}
	switch {
	case u.isResumable() && u.Size < 0:
		return &FieldError{"size", "an upload that begins at an offset states the size of the whole"}
	case u.isResumable() && u.SHA256 == "":
		return &FieldError{"sha256", "an upload that begins at an offset states the checksum of the whole"}
	case u.isResumable() && u.Offset > u.Size:
		return &FieldError{"offset", "it is beyond the size"}
	}
	return nil
}

// Progress returns the state of the upload with the given Path, Size and SHA256.
func (r *Roots) Progress(ctx context.Context, u Upload) (Progress, error) {
	u.Offset = 0
	in, rel, err := r.resolve("path", u.Path)
	if err == nil {
		err = u.check()
	}
	if err != nil {
		return Progress{}, err
	}
	p := r.enter(in, rel, &u)
	defer r.leave(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := in.Lstat(p.staged)
	switch {
	case err == nil:
		return Progress{Offset: info.Size()}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return Progress{}, mapped(u.Path, err)
	}
	return r.finished(ctx, &u)
}

// finished reports whether the file is already present, uploaded by a request whose response was lost, or put there
// otherwise. Its bytes then need not be sent again.
func (r *Roots) finished(ctx context.Context, u *Upload) (Progress, error) {
	c, err := r.Content(ctx, u.Path)
	if err != nil || c.File.Size != u.Size {
		if err == nil {
			c.Close()
		}
		return Progress{}, nil // an unreadable file is another one
	}
	defer c.Close()
	got, err := c.Sum(ctx)
	switch {
	case errors.Is(err, ErrChanged), err == nil && got != u.SHA256:
		return Progress{}, nil
	case err != nil:
		return Progress{}, err
	}
	c.File.SHA256 = got
	return Progress{Offset: u.Size, Complete: true, File: &c.File}, nil
}

// Write writes bytes of an upload. If body fails, the bytes received are kept if the upload has an Offset. The error is
// an *OffsetError if the upload has reached another offset, and a *FieldError if the whole differs from the stated size
// or checksum; the upload then begins again. Another Write to the same upload ends this one.
func (r *Roots) Write(ctx context.Context, u Upload, body io.Reader) (Progress, error) {
	in, rel, err := r.resolve("path", u.Path)
	if err == nil {
		err = u.check()
	}
	if err != nil {
		return Progress{}, err
	}
	there, err := in.checkPlace(rel, u.Path, &u)
	if err != nil {
		return Progress{}, mapped(u.Path, err)
	}
	if there != nil && u.Keep {
		if u.isResumable() {
			if done, err := r.finished(ctx, &u); err != nil || done.Complete {
				return done, err
			}
		}
		return Progress{}, mapped(u.Path, fs.ErrExist)
	}
	if u.Mode == "" && there != nil && there.Mode().IsRegular() {
		u.Mode = fmt.Sprintf("%04o", there.Mode().Perm())
	}
	p := r.enter(in, rel, &u)
	defer r.leave(p)
	return r.write(ctx, p, &u, body)
}

func (r *Roots) write(ctx context.Context, p *part, u *Upload, body io.Reader) (Progress, error) {
	turn, f, done, err := p.begin(u, func() (Progress, error) { return r.finished(ctx, u) })
	if err != nil || done.Complete {
		return done, mapped(u.Path, err)
	}
	defer f.Close()
	have, err := p.copy(turn, f, u, body)
	if err == nil && (u.Size < 0 || have == u.Size) {
		return r.finish(ctx, p, turn, f, u)
	}
	if err == nil && !u.isResumable() {
		err = &FieldError{"size", fmt.Sprintf("%d bytes have come", have)}
	}
	if !u.isResumable() {
		p.discard()
	}
	return Progress{Offset: have}, mapped(u.Path, err)
}

// finish checks the whole file and gives it its name. It continues when the client disconnects: a repeated request
// finds the result.
func (r *Roots) finish(ctx context.Context, p *part, turn uint64, f *os.File, u *Upload) (Progress, error) {
	ctx = context.WithoutCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn != turn {
		return Progress{}, errSuperseded
	}
	if u.SHA256 != "" {
		info, err := f.Stat()
		if err != nil {
			return Progress{}, err
		}
		got, err := sum(ctx, io.NewSectionReader(f, 0, info.Size()))
		if err != nil {
			return Progress{}, mapped(u.Path, err)
		}
		if got != u.SHA256 {
			p.remove()
			return Progress{}, &FieldError{
				"sha256", "what has come has the checksum " + got + "; the upload begins again at 0",
			}
		}
	}
	if err := p.place(f, u); err != nil {
		if !u.isResumable() || errors.Is(err, fs.ErrExist) {
			p.remove()
		}
		return Progress{}, mapped(u.Path, err)
	}
	file, err := r.Show(u.Path)
	if err != nil {
		return Progress{}, err
	}
	file.SHA256 = u.SHA256
	return Progress{Offset: file.Size, Complete: true, File: &file}, nil
}

// place syncs the bytes in f and gives them their name.
func (p *part) place(f *os.File, u *Upload) error {
	mode := fs.FileMode(0o644)
	if u.Mode != "" {
		mode, _ = parseMode(u.Mode) // validated before
	}
	parent := path.Dir(p.rel)
	if u.Parents {
		if err := p.in.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(f.Chmod(mode), f.Sync()); err != nil {
		return err
	}
	var err error
	if u.Keep {
		err = p.in.renameNew(p.staged, p.rel, false)
	} else {
		err = p.in.Rename(p.staged, p.rel)
	}
	if errors.Is(err, syscall.EXDEV) {
		err = p.placeElsewhere(f, u, mode)
	}
	if err != nil {
		return err
	}
	return p.in.syncDir(parent)
}

// placeElsewhere copies the bytes to a directory on another file system: first beside the name, then to it.
func (p *part) placeElsewhere(f *os.File, u *Upload, mode fs.FileMode) (err error) {
	beside := path.Join(path.Dir(p.rel), stagingDir+"-"+rand.Text())
	out, err := p.in.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = p.in.Root.Remove(beside)
		}
	}()
	info, err := f.Stat()
	if err == nil {
		_, err = io.Copy(out, io.NewSectionReader(f, 0, info.Size()))
	}
	if err = errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); err != nil {
		return err
	}
	if u.Keep {
		err = p.in.renameNew(beside, p.rel, false)
	} else {
		err = p.in.Rename(beside, p.rel)
	}
	if err == nil {
		p.remove()
	}
	return err
}

// stagedName returns the name of the file that collects the bytes of an upload.
func stagedName(rel string, u *Upload) string {
	if !u.isResumable() {
		return stagingDir + "/once-" + rand.Text()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", u.Size, u.SHA256, rel))
	return stagingDir + "/" + hex.EncodeToString(sum[:16])
}

// errSuperseded ends a Write that another one has replaced.
var errSuperseded = fmt.Errorf("%w: another request goes on with this upload", reprise.ErrConflict)
