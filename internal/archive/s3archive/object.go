package s3archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"reprise"
	"reprise/internal/archive"
)

// errStopped ends a writer whose upload has failed.
var errStopped = errors.New("the upload has failed")

// Create uploads a file; see archive.Place.
func (b *Bucket) Create(ctx context.Context, name string, write func(io.Writer) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bounded, stop := context.WithTimeout(ctx, b.opts.UploadTimeout)
	defer stop()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err)
		written <- err
	}()
	err := b.upload(bounded, b.prefix+name, r)
	_ = r.CloseWithError(errStopped)
	if writeErr := <-written; writeErr != nil && !errors.Is(writeErr, errStopped) {
		return writeErr
	}
	return placeError(ctx, err)
}

// upload uploads what r gives: at once if it is small, and else in parts.
func (b *Bucket) upload(ctx context.Context, object string, r io.Reader) error {
	var head bytes.Buffer
	n, err := io.CopyN(&head, r, int64(b.opts.PartBytes))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	// The MD5 of each part is part of what is signed, and every server of the protocol checks it. To sign
	// the payload too, as it is sent, would be a matter of plain HTTP alone, and not all servers take it.
	opts := minio.PutObjectOptions{
		ContentType: "application/octet-stream", PartSize: uint64(b.opts.PartBytes), SendContentMd5: true,
		DisableContentSha256: true,
	}
	if err != nil {
		opts.DisableMultipart = true
		_, err = b.client.Client.PutObject(ctx, b.name, object, &head, n, opts)
		return err
	}
	_, err = b.client.Client.PutObject(ctx, b.name, object, io.MultiReader(&head, r), -1, opts)
	return err
}

// object is an open file of a bucket.
type object struct {
	bucket *Bucket
	ctx    context.Context // of Open
	key    string
	etag   string
	size   int64
}

// Open opens a file; see archive.Place. Each read requests only the needed bytes. If the file is replaced meanwhile,
// reading fails with an error that wraps reprise.ErrUnavailable.
func (b *Bucket) Open(ctx context.Context, name string) (archive.PlacedFile, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	bounded, stop := context.WithTimeout(ctx, b.opts.Timeout)
	defer stop()
	info, err := b.client.StatObject(bounded, b.name, b.prefix+name, minio.StatObjectOptions{})
	if err != nil {
		return nil, placeError(ctx, err)
	}
	return &object{b, ctx, b.prefix + name, info.ETag, info.Size}, nil
}

// Size returns its length in bytes.
func (o *object) Size() int64 { return o.size }

// Close does nothing: no connection is held.
func (o *object) Close() error { return nil }

// ReadAt reads the bytes with one request.
func (o *object) ReadAt(p []byte, at int64) (int, error) {
	want := min(int64(len(p)), o.size-at)
	if at < 0 || want < 0 {
		return 0, io.EOF
	}
	if want > 0 {
		if err := o.read(p[:want], at); err != nil {
			return 0, placeError(o.ctx, err)
		}
	}
	if want < int64(len(p)) {
		return int(want), io.EOF
	}
	return int(want), nil
}

func (o *object) read(p []byte, at int64) error {
	ctx, stop := context.WithTimeout(o.ctx, o.bucket.opts.Timeout)
	defer stop()
	var opts minio.GetObjectOptions
	if err := opts.SetRange(at, at+int64(len(p))-1); err != nil {
		return err
	}
	body, info, _, err := o.bucket.client.GetObject(ctx, o.bucket.name, o.key, opts)
	if err != nil {
		return err
	}
	defer body.Close()
	if info.ETag != o.etag {
		return fmt.Errorf("%w: the file was replaced while it was read", reprise.ErrUnavailable)
	}
	_, err = io.ReadFull(body, p)
	return err
}
