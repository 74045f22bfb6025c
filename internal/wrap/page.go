package wrap

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"reprise"
)

// DecodeFunc decodes the bytes of a batch in the wrapped Store to those that were appended.
type DecodeFunc func(info *reprise.StreamInfo, b reprise.Batch) ([]byte, error)

// Pager reads pages whose batches have another size in the wrapped Store than outside. It preserves the rule of pages
// for the outside: a page ends with the first batch with which the appended bytes reach maxBytes.
type Pager struct {
	inner reprise.Store
	// ratio is the recent ratio of the size inside to the size outside, as the bits of a float64.
	ratio atomic.Uint64
}

// Init sets the wrapped Store and the first ratio.
func (p *Pager) Init(inner reprise.Store, ratio float64) {
	p.inner = inner
	p.ratio.Store(math.Float64bits(ratio))
}

// ask returns a number of bytes inside that probably corresponds to a little more than maxBytes outside.
func (p *Pager) ask(maxBytes int) int {
	const spare = 1.125
	want := float64(maxBytes) * spare * math.Float64frombits(p.ratio.Load())
	return int(min(want, math.MaxInt32)) + 64
}

// learn moves the ratio towards that of a batch.
func (p *Pager) learn(inside, outside int) {
	const weight, least, most = 1. / 16, 1. / 64, 8
	if outside == 0 {
		return
	}
	old := math.Float64frombits(p.ratio.Load())
	now := old + weight*(float64(inside)/float64(outside)-old)
	p.ratio.Store(math.Float64bits(min(max(now, least), most))) // a lost update does no harm
}

// Read reads a page. It asks the wrapped Store until the page is full or at the tail. The last answer determines the
// state of the stream for the whole page.
func (p *Pager) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int,
	decode DecodeFunc,
) (reprise.Page, error) {
	page, err := p.inner.Read(ctx, key, after, p.first(maxBytes))
	if err != nil || maxBytes <= 0 {
		page.Batches = nil
		return page, err
	}
	c := Collected{After: after, MaxBytes: maxBytes, Info: page.Info}
	for {
		if page.Info.Epoch != c.Info.Epoch { // another epoch now, whose beginning this page may not hold
			c = Collected{After: after, MaxBytes: maxBytes, Info: page.Info}
			if page, err = p.inner.Read(ctx, key, after, p.ask(maxBytes)); err != nil {
				return reprise.Page{}, err
			}
			continue
		}
		if err := p.take(&c, page, decode); err != nil {
			return reprise.Page{}, err
		}
		if c.Full() || len(page.Batches) == 0 || c.Last() >= page.Info.Tail {
			return reprise.Page{Info: c.Info, Batches: c.Batches}, nil
		}
		if page, err = p.inner.Read(ctx, key, c.Last(), p.ask(c.Left())); err != nil {
			return reprise.Page{}, err
		}
	}
}

// first returns the number of bytes to ask for first.
func (p *Pager) first(maxBytes int) int {
	if maxBytes <= 0 {
		return 0
	}
	return p.ask(maxBytes)
}

// take decodes the batches of a page until c is full. The error names the batch.
func (p *Pager) take(c *Collected, page reprise.Page, decode DecodeFunc) error {
	c.Renew(page.Info, page.Batches)
	for _, b := range page.Batches {
		if c.Full() {
			return nil
		}
		inside := len(b.Bytes)
		var err error
		if b.Bytes, err = decode(&page.Info, b); err != nil {
			return fmt.Errorf("stream %s, epoch %s, batch of %d events at seq %d: %w", page.Info.Key, page.Info.Epoch,
				b.Count, b.First, err)
		}
		p.learn(inside, len(b.Bytes))
		c.Add(b)
	}
	return nil
}

// Collected is a page that is assembled from several. The newest of them determines the state of the stream. Batches
// never change, so those of older pages stay valid, except those that have left the window meanwhile.
type Collected struct {
	After    uint64
	MaxBytes int
	Info     reprise.StreamInfo
	Batches  []reprise.Batch
	size     int
}

// From returns the first event that the page must have.
func (c *Collected) From() uint64 { return max(c.After+1, c.Info.Earliest) }

// Last returns the last event of the page, or the position before its first event if the page is empty.
func (c *Collected) Last() uint64 {
	if n := len(c.Batches); n > 0 {
		return c.Batches[n-1].Last()
	}
	return c.After
}

// Full reports whether the page has MaxBytes.
func (c *Collected) Full() bool { return c.size >= c.MaxBytes }

// Left returns the number of bytes that the page lacks.
func (c *Collected) Left() int { return c.MaxBytes - c.size }

// Add appends a batch.
func (c *Collected) Add(b reprise.Batch) {
	c.Batches = append(c.Batches, b)
	c.size += len(b.Bytes)
}

// Renew continues with a newer state of the stream and with the batches next, which were read with that state. It drops
// batches that are no longer in the window, or all batches if a trim has left a gap before next.
func (c *Collected) Renew(info reprise.StreamInfo, next []reprise.Batch) {
	if len(next) > 0 && next[0].First != c.Last()+1 {
		c.Batches, c.size = nil, 0
	}
	c.Info = info
	for len(c.Batches) > 0 && c.Batches[0].Last() < c.From() {
		c.size -= len(c.Batches[0].Bytes)
		c.Batches = c.Batches[1:]
	}
}
