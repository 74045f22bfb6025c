package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"reprise/internal/backoff"
	"reprise/internal/problem"
	"reprise/internal/ssefollow"
)

// ErrFileChanged: a file was changed while it was uploaded or downloaded. The transferred bytes were discarded.
var ErrFileChanged = errors.New("the file has changed meanwhile")

// TransferOptions are the settings of an upload or a download. The zero value of each field means its default.
type TransferOptions struct {
	// Keep refuses to replace an existing file, with reprise.ErrConflict or fs.ErrExist.
	Keep bool
	// Mode are the permissions of an uploaded file, for example "0755". Default: the permissions of the local file.
	Mode string
	// OnProgress, if not nil, is called with the number of transferred bytes and the total. It is called by the
	// goroutine of the transfer. The first number is not 0 if the transfer continues an earlier one.
	OnProgress func(done, total int64)
	// OnDrop, OnConnected and GiveUp are as in FollowOptions. A server that answers but refuses for now is retried for
	// Options.GiveUp only.
	OnDrop      func(Drop)
	OnConnected func()
	GiveUp      time.Duration
	// IdleTimeout is the silence after which a connection is given up. Default: 45 s.
	IdleTimeout time.Duration
}

// transfer is an upload or a download.
type transfer struct {
	c    *Client
	op   string
	opts TransferOptions
	wait backoff.Failures
}

func (c *Client) transfer(op string, opts *TransferOptions) *transfer {
	t := &transfer{c: c, op: op, wait: c.failures()}
	if opts != nil {
		t.opts = *opts
	}
	t.opts.IdleTimeout = cmp.Or(t.opts.IdleTimeout, 45*time.Second)
	return t
}

// failed waits before the next try, or returns the error that ends the transfer.
func (t *transfer) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pause := t.wait.Next(askedWait(err))
	giveUp := t.opts.GiveUp
	if refused, ok := problem.As(err); giveUp == 0 && (ok && refused.Code != "" || !t.c.met.Load()) {
		giveUp = t.c.giveUp()
	}
	if !Retryable(err) || t.wait.Outlasts(giveUp, pause) {
		return &Error{Op: t.op, Err: err, Tries: t.wait.Tries()}
	}
	if t.opts.OnDrop != nil {
		t.opts.OnDrop(Drop{Err: err, Since: t.wait.Since(), Tries: t.wait.Tries(), Wait: pause, Met: t.c.met.Load()})
	}
	return backoff.Sleep(ctx, pause)
}

// succeeded records that the connection has delivered something.
func (t *transfer) succeeded() {
	t.wait.Succeeded()
	if t.opts.OnConnected != nil {
		t.opts.OnConnected()
	}
}

func (t *transfer) progress(done, total int64) {
	if t.opts.OnProgress != nil {
		t.opts.OnProgress(done, total)
	}
}

// uploadPiece is the number of bytes in one request. If a request is cut off, the server keeps the bytes that it has
// received.
const uploadPiece = 4 << 20

// uploaded is the answer to a piece of an upload.
type uploaded struct {
	Offset   int64 `json:"offset"`
	Complete bool  `json:"complete"`
	File     File  `json:"file"`
}

// Upload copies a local file to a path of the server, where it appears when all of it has arrived. Upload continues
// through lost connections and restarts of the server. A call after an error, also by another process, continues with
// the bytes that have arrived before. The error wraps ErrFileChanged if the local file was changed meanwhile. opts may
// be nil.
func (c *Client) Upload(ctx context.Context, local, p string, opts *TransferOptions) (File, error) {
	f, err := openLocal(local)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	return c.UploadFile(ctx, f, p, opts)
}

// UploadFile is like Upload for an open regular file. The caller closes it.
func (c *Client) UploadFile(ctx context.Context, f *os.File, p string, opts *TransferOptions) (File, error) {
	t := c.transfer("upload "+p, opts)
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	sum, err := sumLocal(ctx, f, info.Size())
	if err != nil {
		return File{}, err
	}
	name := url.Values{"path": {p}, "size": {strconv.FormatInt(info.Size(), 10)}, "sha256": {sum}}
	at, err := t.offset(ctx, name)
	if err != nil || at.Complete && !t.opts.Keep {
		return t.whole(at, info.Size()), err
	}
	query := url.Values{
		"mode":    {cmp.Or(t.opts.Mode, fmt.Sprintf("%04o", info.Mode().Perm()))},
		"parents": {"true"}, "overwrite": {strconv.FormatBool(!t.opts.Keep)},
	}
	maps.Copy(query, name)
	t.progress(at.Offset, info.Size())
	if at, err = t.upload(ctx, f, info.Size(), query, at.Offset); err != nil {
		return File{}, err
	}
	return at.File, nil
}

// whole is the file that was there before anything was sent.
func (t *transfer) whole(at uploaded, size int64) File {
	if at.Complete {
		t.progress(size, size)
	}
	return at.File
}

// openLocal opens a file and nothing else.
func openLocal(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a file")}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

// sumLocal is the SHA-256 of the first size bytes of a file.
func sumLocal(ctx context.Context, f io.ReaderAt, size int64) (string, error) {
	hash := sha256.New()
	buf := make([]byte, 1<<20)
	in := io.NewSectionReader(f, 0, size)
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := in.Read(buf)
		_, _ = hash.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(hash.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// offset requests the progress of the upload.
func (t *transfer) offset(ctx context.Context, name url.Values) (at uploaded, err error) {
	err = t.ask(ctx, "/upload", name, &at)
	return at, err
}

// ask requests the resource at a path below filesPath, and retries until it is answered.
func (t *transfer) ask(ctx context.Context, path string, query url.Values, answer any) error {
	for {
		err := t.c.try(ctx, &request{
			op: t.op, method: http.MethodGet, path: filesPath + path, query: query, patient: true,
		}, answer)
		if err == nil {
			t.succeeded()
			return nil
		}
		if err := t.failed(ctx, err); err != nil {
			return err
		}
	}
}

// upload sends the bytes that the server lacks, and returns its last answer.
func (t *transfer) upload(ctx context.Context, f io.ReaderAt, size int64, query url.Values, offset int64) (
	at uploaded, err error,
) {
	r := &request{
		op: t.op, method: http.MethodPut, path: filesPath + "/content", query: query, patient: true,
		header: http.Header{"Content-Type": {bytesType}},
	}
	at.Offset = offset
	for {
		piece := make([]byte, min(uploadPiece, size-at.Offset))
		if n, err := f.ReadAt(piece, at.Offset); n < len(piece) {
			return at, fmt.Errorf("%s: %w: %w", t.op, ErrFileChanged, err)
		}
		query.Set("offset", strconv.FormatInt(at.Offset, 10))
		r.body = piece
		err := t.send(ctx, r, &at, t.patience(at.Offset+int64(len(piece)), size))
		if refused, ok := problem.As(err); ok && refused.Offset != nil && *refused.Offset <= size {
			// It has more than we know of, or less: a restart, or an answer that was lost.
			if *refused.Offset > at.Offset {
				t.succeeded()
			}
			at.Offset = *refused.Offset
			continue
		}
		switch {
		case isOtherSum(err):
			return at, &Error{Op: t.op, Err: fmt.Errorf("%w: %w", ErrFileChanged, err), Tries: 1}
		case err != nil:
			if err := t.failed(ctx, err); err != nil {
				return at, err
			}
			continue
		}
		t.succeeded()
		t.progress(at.Offset, size)
		if at.Complete {
			return at, nil
		}
	}
}

// isOtherSum reports whether the server has refused the bytes for their checksum.
func isOtherSum(err error) bool {
	refused, ok := problem.As(err)
	return ok && refused.Code == problem.CodeInvalid && refused.Field == "sha256"
}

// sumRate is the number of bytes per second that a slow server reads for their checksum.
const sumRate = 50 << 20

// patience limits the time until a piece is answered. After the last piece the server checks the whole file.
func (t *transfer) patience(end, size int64) time.Duration {
	if end < size {
		return t.opts.IdleTimeout
	}
	return t.opts.IdleTimeout + time.Duration(size/sumRate)*time.Second
}

// send sends a piece. The part of it that has arrived when it takes too long is kept.
func (t *transfer) send(ctx context.Context, r *request, at *uploaded, patience time.Duration) error {
	return watched(ctx, patience, func(ctx context.Context, _ func()) error {
		var next uploaded
		if err := t.c.try(ctx, r, &next); err != nil {
			return err
		}
		*at = next
		return nil
	})
}

// watched calls do with a context that ends when alive was not called for some time.
func watched(ctx context.Context, idle time.Duration, do func(ctx context.Context, alive func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(idle, func() { cancel(ssefollow.ErrIdle) })
	defer timer.Stop()
	err := do(ctx, func() { timer.Reset(idle) })
	if err != nil && errors.Is(context.Cause(ctx), ssefollow.ErrIdle) {
		return ssefollow.ErrIdle
	}
	return err
}
