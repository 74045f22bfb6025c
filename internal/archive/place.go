package archive

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"reprise"
)

// Place keeps whole files under names such as "default/builds/7/@1700000000123.7ZK3M9Q2VTX4WB8A.reprise":
// segments of letters, digits and ". _ - : % @ +", none of them "." or "..", with slashes between.
//
// It is safe for concurrent use. An error that may pass wraps reprise.ErrUnavailable; a Place
// that waits for a server bounds that by itself.
type Place interface {
	// Create creates or replaces the file with the bytes that write writes to w. The file becomes visible completely or
	// not at all, even after a failure, and is durable when Create returns. An error of write is returned unchanged.
	Create(ctx context.Context, name string, write func(w io.Writer) error) error
	// Open opens a file for reading. ctx also applies to the reads. The error wraps reprise.ErrNotFound if there is no
	// such file. If the file is replaced meanwhile, the read bytes belong to one version, or the read fails with an
	// error that wraps reprise.ErrUnavailable.
	Open(ctx context.Context, name string) (PlacedFile, error)
	// List yields the names that begin with prefix, which is empty or ends within or behind the
	// last segment of a folder, in no certain order. An error is the last thing yielded. What is there
	// all the time is yielded once.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Close releases everything, once no call is under way.
	Close() error
}

// PlacedFile is an open file of a Place.
type PlacedFile interface {
	io.ReaderAt
	io.Closer
	// Size returns its length in bytes.
	Size() int64
}

// life is one life of a stream, as the name of its file tells it:
//
//	<tenant>/<name of the stream>/@<created, ms since 1970>.<epoch>.reprise
//
// '@' is no letter of names, so that a file of the stream "a" is none of the stream "a/b". The
// tenants "." and ".." are written "%2E" and "%2E%2E".
type life struct {
	key     reprise.StreamKey
	created int64 // ms, at least 0
	epoch   reprise.Epoch
}

const extension = ".reprise"

func lifeOf(info *reprise.StreamInfo) life {
	return life{key: info.Key, created: max(0, info.Created.UnixMilli()), epoch: info.Epoch}
}

// folderOf returns the folder of a stream's files, with a slash at its end.
func folderOf(key reprise.StreamKey) string { return tenantFolder(key.Tenant) + key.Name + "/" }

func tenantFolder(t reprise.Tenant) string {
	if t == "." || t == ".." {
		return strings.ReplaceAll(string(t), ".", "%2E") + "/"
	}
	return string(t) + "/"
}

func (l life) file() string {
	return fmt.Sprintf("%s@%d.%s%s", folderOf(l.key), l.created, l.epoch, extension)
}

// parseLife is the inverse of file. It is false for the name of anything else.
func parseLife(file string) (l life, ok bool) {
	path, last, ok := strings.Cut(file, "/@")
	tenant, name, okName := strings.Cut(path, "/")
	created, epoch, okEpoch := strings.Cut(strings.TrimSuffix(last, extension), ".")
	ms, err := strconv.ParseInt(created, 10, 64)
	if !ok || !okName || !okEpoch || err != nil || epoch == "" {
		return l, false
	}
	if tenant == "%2E" || tenant == "%2E%2E" {
		tenant = strings.ReplaceAll(tenant, "%2E", ".")
	}
	l = life{reprise.StreamKey{Tenant: reprise.Tenant(tenant), Name: name}, ms, reprise.Epoch(epoch)}
	return l, l.key.Validate() == nil && l.file() == file
}

// newer reports whether l comes before o in lists: the newest first, and of those made in
// the same millisecond in a fixed order.
func (l life) newer(o life) bool { return l.compare(o) < 0 }

// compare orders lives as lists do.
func (l life) compare(o life) int {
	switch {
	case l.created != o.created:
		return int(min(1, max(-1, o.created-l.created)))
	case l.epoch != o.epoch:
		return strings.Compare(string(o.epoch), string(l.epoch))
	}
	return strings.Compare(o.key.String(), l.key.String())
}
