package storewrap

import (
	"context"
	"fmt"

	"reprise"
	"reprise/internal/marker"
	"reprise/internal/wrap"
)

// CompressOptions are the settings of Compress. The zero value of each field means its default.
type CompressOptions struct {
	// Level is the effort, 1 to 3. Level 1 uses S2 in place of zstd for batches of up to 1 KiB. Level 3 made
	// compiler output a tenth smaller than that, and took more than twice as long for large batches and up to
	// fifteen times as long for small ones; level 2 is in between. Default: 1.
	Level int
	// Dictionaries are for batches of up to 16 KiB, which are too small to be compressed well
	// by themselves: the first for new ones, all of them for reading. Each has the format of
	// "zstd --train" and an id of its own. The built-in dictionary is used for
	// new batches if none is given, and always for reading.
	Dictionaries [][]byte
	// MaxBatchBytes is the maximum size of a decompressed batch, so that a damaged
	// store cannot fill the memory. Larger batches are stored uncompressed. Default: 64 MiB.
	MaxBatchBytes int
}

func (o *CompressOptions) withDefaults() CompressOptions {
	var d CompressOptions
	if o != nil {
		d = *o
	}
	if d.Level == 0 {
		d.Level = 1
	}
	if d.MaxBatchBytes == 0 {
		d.MaxBatchBytes = 64 << 20
	}
	return d
}

// compressed is a Store whose batches are compressed in the wrapped Store. It is safe for
// concurrent use.
type compressed struct {
	wrap.Around
	codec codec
	pages wrap.Pager
}

// Compress compresses the batches of inner, with zstd, or with S2 where that is faster. A batch that would not become
// smaller by at least an eighth is stored uncompressed. opts may be nil.
//
// Batches that were stored before inner was wrapped are read unchanged, so a Store can be
// wrapped at any time. After that it cannot be used without the wrapper. Only Bytes is
// compressed: StreamInfo, including Bytes and End.Data, is the same inside and outside. A batch
// that cannot be decoded is an error that names the stream and the seq.
//
// The error wraps reprise.ErrInvalid for a setting out of its range, an invalid dictionary, or a
// wrapped Store that must be outside of Compress.
func Compress(inner reprise.Store, opts *CompressOptions) (reprise.Store, error) {
	if err := wrap.Place(wrap.Compresses, inner); err != nil {
		return nil, err
	}
	c := &compressed{Around: wrap.Around{Inner: inner}}
	if err := c.codec.init(opts.withDefaults()); err != nil {
		return nil, err
	}
	c.pages.Init(inner, 0.25)
	return c, nil
}

func (c *compressed) Layer() wrap.Layer { return wrap.Compresses }

// CheckMarker compares the wrappers with the marker in the store; see reprise.Wrapper.
func (c *compressed) CheckMarker(ctx context.Context, outermost reprise.Store) (marked bool, err error) {
	return marker.Open(ctx, outermost)
}

// Mark describes the wrapper; see marker.Wrapper. It can be added later.
func (c *compressed) Mark() marker.Mark {
	return marker.Mark{Name: "compress", Later: true}
}

// Append compresses the batches, in parallel if there are many bytes, and stores them.
func (c *compressed) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	smaller := make([]reprise.AppendRequest, len(reqs))
	copy(smaller, reqs)
	inParallel(len(reqs), batchBytes(reqs), func(i int) {
		smaller[i].Bytes = c.codec.encode(reqs[i].Bytes)
	})
	return c.Inner.Append(ctx, smaller)
}

// CreateAppend creates a stream with its first batch, compressed; see reprise.CreateAppender.
func (c *compressed) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	first.Bytes = c.codec.encode(first.Bytes)
	return c.Around.CreateAppend(ctx, info, first)
}

// Read returns a page of batches as they were appended. maxBytes counts their uncompressed bytes.
func (c *compressed) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (reprise.Page, error) {
	return c.pages.Read(ctx, key, after, maxBytes, func(_ *reprise.StreamInfo, b reprise.Batch) ([]byte, error) {
		plain, err := c.codec.decode(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		return plain, nil
	})
}
