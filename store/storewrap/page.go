package storewrap

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"reprise"
)

// decodeFunc turns the bytes of a batch as the Store inside keeps it into those that were appended.
type decodeFunc func(info *reprise.StreamInfo, b reprise.Batch) ([]byte, error)

// pager reads pages of batches that the Store inside keeps in another size than they have outside. It keeps
// the rule of pages as it is seen from outside: a page ends with the first batch with which
// the bytes as they were appended reach maxBytes.
type pager struct {
	inner reprise.Store
	// ratio is by how much larger batches have lately been inside, the bits of a float64.
	ratio atomic.Uint64
}

func (p *pager) init(inner reprise.Store, ratio float64) {
	p.inner = inner
	p.ratio.Store(math.Float64bits(ratio))
}

// ask is how many bytes inside are likely to be a little more than maxBytes outside.
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
	p.ratio.Store(math.Float64bits(min(max(now, least), most))) // one lost among many does no harm
}

// read reads a page. The Store inside is asked until the page is full or at the tail; what it says last
// about the stream holds for the whole page.
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
		if page.Info.Epoch != c.info.Epoch { // another stream by now, of which this page may not hold the beginning
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

// first is how many bytes are asked for at first.
func (p *pager) first(maxBytes int) int {
	if maxBytes <= 0 {
		return 0
	}
	return p.ask(maxBytes)
}

// take decodes the batches of a page until c is full. The error says which batch it was.
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

// collected is a page that is put together from several, of which the newest tells the state
// of the stream. Batches never change, so those of the older pages still hold, but for what has left the
// window meanwhile.
type collected struct {
	after    uint64
	maxBytes int
	info     reprise.StreamInfo
	batches  []reprise.Batch
	size     int
}

// from is the first event that the page must have.
func (c *collected) from() uint64 { return max(c.after+1, c.info.Earliest) }

// last is the last event that the page has, or the position that it is to begin after.
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

// renew goes on with a newer state of the stream, and with next, which were read with it. Batches that are
// not in the window any more go, and all of them where a trim has left a hole before next.
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
