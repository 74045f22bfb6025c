package storewrap

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"reprise"
)

// decodeFunc decodes the bytes of a batch in the wrapped Store to those that were appended.
type decodeFunc func(info *reprise.StreamInfo, b reprise.Batch) ([]byte, error)

// pager reads pages whose batches have another size in the wrapped Store than outside. It preserves the rule of pages
// for the outside: a page ends with the first batch with which the appended bytes reach maxBytes.
type pager struct {
	inner reprise.Store
	// ratio is the recent ratio of the size inside to the size outside, as the bits of a float64.
	ratio atomic.Uint64
}

func (p *pager) init(inner reprise.Store, ratio float64) {
	p.inner = inner
	p.ratio.Store(math.Float64bits(ratio))
}

// ask returns a number of bytes inside that probably corresponds to a little more than maxBytes outside.
func (p *pager) ask(maxBytes int) int {
	const spare = 1.125
	want := float64(maxBytes) * spare * math.Float64frombits(p.ratio.Load())
	return int(min(want, math.MaxInt32)) + 64
}

// learn moves the ratio towards that of a batch.
func (p *pager) learn(inside, outside int) {
	const weight, least, most = 1. / 16, 1. / 64, 8
	if outside == 0 {
		return
	}
	old := math.Float64frombits(p.ratio.Load())
	now := old + weight*(float64(inside)/float64(outside)-old)
	p.ratio.Store(math.Float64bits(min(max(now, least), most))) // a lost update does no harm
}

// read reads a page. It asks the wrapped Store until the page is full or at the tail. The last answer determines the
// state of the stream for the whole page.
func (p *pager) read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int,
	decode decodeFunc,
) (reprise.Page, error) {
	page, err := p.inner.Read(ctx, key, after, p.first(maxBytes))
	if err != nil || maxBytes <= 0 {
		page.Batches = nil
		return page, err
	}
	c := collected{after: after, maxBytes: maxBytes, info: page.Info}
	for {
		if page.Info.Epoch != c.info.Epoch { // another epoch now, whose beginning this page may not hold
			c = collected{after: after, maxBytes: maxBytes, info: page.Info}
			if page, err = p.inner.Read(ctx, key, after, p.ask(maxBytes)); err != nil {
				return reprise.Page{}, err
			}
			continue
		}
		if err := p.take(&c, page, decode); err != nil {
			return reprise.Page{}, err
		}
		if c.full() || len(page.Batches) == 0 || c.last() >= page.Info.Tail {
			return reprise.Page{Info: c.info, Batches: c.batches}, nil
		}
		if page, err = p.inner.Read(ctx, key, c.last(), p.ask(maxBytes-c.size)); err != nil {
			return reprise.Page{}, err
		}
	}
}

// first returns the number of bytes to ask for first.
func (p *pager) first(maxBytes int) int {
	if maxBytes <= 0 {
		return 0
	}
	return p.ask(maxBytes)
}

// take decodes the batches of a page until c is full. The error names the batch.
func (p *pager) take(c *collected, page reprise.Page, decode decodeFunc) error {
	c.renew(page.Info, page.Batches)
	for _, b := range page.Batches {
		if c.full() {
			return nil
		}
		inside := len(b.Bytes)
		var err error
		if b.Bytes, err = decode(&page.Info, b); err != nil {
			return fmt.Errorf("stream %s, epoch %s, batch of %d events at seq %d: %w", page.Info.Key, page.Info.Epoch,
				b.Count, b.First, err)
		}
		p.learn(inside, len(b.Bytes))
		c.add(b)
	}
	return nil
}

// collected is a page that is assembled from several. The newest of them determines the state of the stream. Batches
// never change, so those of older pages stay valid, except those that have left the window meanwhile.
type collected struct {
	after    uint64
	maxBytes int
	info     reprise.StreamInfo
	batches  []reprise.Batch
	size     int
}

// from returns the first event that the page must have.
func (c *collected) from() uint64 { return max(c.after+1, c.info.Earliest) }

// last returns the last event of the page, or the position before its first event if the page is empty.
func (c *collected) last() uint64 {
	if n := len(c.batches); n > 0 {
		return c.batches[n-1].Last()
	}
	return c.after
}

func (c *collected) full() bool { return c.size >= c.maxBytes }

func (c *collected) add(b reprise.Batch) {
	c.batches = append(c.batches, b)
	c.size += len(b.Bytes)
}

// renew continues with a newer state of the stream and with the batches next, which were read with that state. It drops
// batches that are no longer in the window, or all batches if a trim has left a gap before next.
func (c *collected) renew(info reprise.StreamInfo, next []reprise.Batch) {
	if len(next) > 0 && next[0].First != c.last()+1 {
		c.batches, c.size = nil, 0
	}
	c.info = info
	for len(c.batches) > 0 && c.batches[0].Last() < c.from() {
		c.size -= len(c.batches[0].Bytes)
		c.batches = c.batches[1:]
	}
}
