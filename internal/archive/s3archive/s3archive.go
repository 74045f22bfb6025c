// Package s3archive keeps archived streams in a bucket of Amazon S3 or of a server that speaks its protocol.
package s3archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"reprise"
	"reprise/internal/border"
)

// Options are the settings of Open. The zero value of each field means its default.
type Options struct {
	// Timeout limits each request except uploads, including its retries. Default: 10 seconds.
	Timeout time.Duration
	// UploadTimeout bounds the upload of one stream. Default: 10 minutes.
	UploadTimeout time.Duration
	// PartBytes is the size of the parts that large files are uploaded in, at least 5 MiB. A smaller
	// file is uploaded at once. Each upload that is under way needs as much memory, or twice as much for
	// a large file. Default: 16 MiB.
	PartBytes int
	// Credentials are the credentials of the account. Default: the environment variables AWS_ACCESS_KEY_ID,
	// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
	Credentials *credentials.Credentials
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Timeout <= 0 {
		d.Timeout = 10 * time.Second
	}
	if d.UploadTimeout <= 0 {
		d.UploadTimeout = 10 * time.Minute
	}
	if d.PartBytes == 0 {
		d.PartBytes = 16 << 20
	}
	d.PartBytes = max(d.PartBytes, 5<<20)
	if d.Credentials == nil {
		d.Credentials = credentials.NewEnvAWS()
	}
	return d
}

// Bucket is an archive.Place in a bucket. It is safe for concurrent use. A file is seen once its
// upload is complete. The parts of an upload that was cut off are not seen, but may stay in the bucket
// and cost money until a rule of the bucket removes them.
type Bucket struct {
	client    minio.Core
	transport *http.Transport
	opts      Options
	name      string
	prefix    string // "" or with a slash behind
}

// Open opens the bucket that a URL names, which must exist:
//
//	s3://BUCKET/PREFIX?endpoint=URL&region=REGION
//
// The prefix may be missing. The endpoint is that of the server, https://s3.amazonaws.com where it is
// missing. The region is found out where it is missing. The URL must not hold credentials. The error
// wraps reprise.ErrInvalid for a URL that cannot be one.
func Open(ctx context.Context, bucketURL string, opts *Options) (*Bucket, error) {
	place, err := parse(bucketURL)
	if err != nil {
		return nil, err
	}
	transport, err := minio.DefaultTransport(place.secure)
	if err != nil {
		return nil, placeError(ctx, err)
	}
	b := &Bucket{transport: transport, opts: opts.withDefaults(), name: place.bucket, prefix: place.prefix}
	transport.ResponseHeaderTimeout = b.opts.Timeout
	b.client.Client, err = minio.New(place.endpoint, &minio.Options{
		Creds: b.opts.Credentials, Secure: place.secure, Region: place.region, Transport: transport, MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", reprise.ErrInvalid, err)
	}
	bounded, stop := context.WithTimeout(ctx, b.opts.Timeout)
	defer stop()
	found, err := b.client.BucketExists(bounded, b.name)
	if err == nil && !found {
		err = fmt.Errorf("%w: there is no such bucket", reprise.ErrInvalid)
	} else if err != nil {
		err = placeError(ctx, err)
	}
	if err != nil {
		transport.CloseIdleConnections()
		return nil, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	return b, nil
}

// location is a bucket URL.
type location struct {
	bucket, prefix, endpoint, region string
	secure                           bool
}

func parse(bucketURL string) (l location, err error) {
	u, err := url.Parse(bucketURL)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return l, fmt.Errorf("%w: want s3://BUCKET/PREFIX?endpoint=URL&region=REGION, without credentials",
			reprise.ErrInvalid)
	}
	l = location{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), endpoint: "s3.amazonaws.com", secure: true}
	if l.prefix != "" {
		l.prefix += "/"
	}
	query := u.Query()
	for name := range query {
		if name != "endpoint" && name != "region" {
			return l, fmt.Errorf("%w: unknown parameter %q of an s3 URL", reprise.ErrInvalid, name)
		}
	}
	l.region = query.Get("region")
	if endpoint := query.Get("endpoint"); endpoint != "" {
		e, err := url.Parse(endpoint)
		if err != nil || e.Host == "" || e.User != nil || strings.Trim(e.Path, "/") != "" || e.Scheme != "http" &&
			e.Scheme != "https" {
			return l, fmt.Errorf("%w: an endpoint is http://HOST or https://HOST", reprise.ErrInvalid)
		}
		l.endpoint, l.secure = e.Host, e.Scheme == "https"
	}
	return l, nil
}

// placeError maps each error of a request that leaves the Bucket; see package border. ctx is that of the caller,
// without our own bound.
func placeError(ctx context.Context, err error) error {
	response, answered := errors.AsType[minio.ErrorResponse](err)
	switch {
	case answered && response.Code == minio.NoSuchKey:
		err = fmt.Errorf("%w: %w", reprise.ErrNotFound, err)
	case answered && response.StatusCode >= 400 && response.StatusCode < 500 &&
		response.StatusCode != http.StatusRequestTimeout && response.StatusCode != http.StatusTooManyRequests:
		err = fmt.Errorf("%w: %w", errRefused, err)
	}
	return border.Error(ctx, err, errRefused)
}

// errRefused: the bucket refuses, and will again.
var errRefused = errors.New("the bucket refuses")

// List yields names; see archive.Place. They come sorted, a request for each 1,000.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if ctx.Err() != nil {
			yield("", context.Cause(ctx))
			return
		}
		inner, stop := context.WithCancel(ctx)
		patience := time.AfterFunc(b.opts.Timeout, stop) // between two objects
		defer patience.Stop()
		objects := b.client.Client.ListObjects(inner, b.name,
			minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true})
		defer func() {
			stop()
			for range objects { // it ends when it sees that it is to stop
			}
		}()
		for object := range objects {
			if object.Err != nil {
				yield("", placeError(ctx, object.Err))
				return
			}
			patience.Stop()
			if !yield(strings.TrimPrefix(object.Key, b.prefix), nil) {
				return
			}
			patience.Reset(b.opts.Timeout)
		}
		if inner.Err() != nil { // the list was cut off, and may not have said so
			yield("", placeError(ctx, inner.Err()))
		}
	}
}

// Close lets go of idle connections.
func (b *Bucket) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}
