package reprise

import (
	"context"
	"fmt"
)

// sizeIndex knows how many bytes of a stream lie before a seq, in steps that are
// small beside what is kept: it is asked how far to trim to get rid of some bytes, and
// how many bytes a trim gets rid of.
type sizeIndex struct {
	steps []sizeStep // oldest first
	total int64      // of all steps
	// unknown is true while the one step stands for all that was kept when the
	// stream came into memory.
	unknown bool
}

// sizeStep is the bytes of the events after the step before, up to last.
type sizeStep struct {
	last  uint64
	bytes int64
}

// stepShare is the part of what is kept that a step may grow to.
const stepShare = 256

func (x *sizeIndex) reset(info *StreamInfo) {
	*x = sizeIndex{}
	if info.Bytes > 0 {
		x.steps = []sizeStep{{last: info.Tail, bytes: info.Bytes}}
		x.total = info.Bytes
		x.unknown = true
	}
}

// add counts a batch.
func (x *sizeIndex) add(last uint64, bytes int64) {
	x.total += bytes
	n := len(x.steps)
	if n > 0 && x.steps[n-1].bytes+bytes <= x.total/stepShare {
		x.steps[n-1].last = last
		x.steps[n-1].bytes += bytes
		return
	}
	x.steps = append(x.steps, sizeStep{last, bytes})
}

// before drops what lies wholly before seq earliest and returns its bytes.
func (x *sizeIndex) before(earliest uint64) (bytes int64) {
	n := 0
	for n < len(x.steps) && x.steps[n].last < earliest {
		bytes += x.steps[n].bytes
		n++
	}
	x.steps = x.steps[n:]
	x.total -= bytes
	x.unknown = x.unknown && n == 0
	return bytes
}

// oldest says up to which seq at least over bytes lie, or all if there are fewer.
func (x *sizeIndex) oldest(over int64) (last uint64) {
	for _, step := range x.steps {
		if over <= 0 {
			break
		}
		over -= step.bytes
		last = step.last
	}
	return last
}

// learn replaces the one step of a stream that came into memory by what the
// store holds.
func (m *commits) learn(lv *live) error {
	var learned sizeIndex
	for after := lv.info.Earliest - 1; after < lv.info.Tail; {
		page, err := m.log.store.Read(context.Background(), lv.key, after, 1<<20)
		if err != nil {
			return err
		}
		if len(page.Batches) == 0 {
			return fmt.Errorf("%w: no events after %d of %d", ErrUnavailable, after, lv.info.Tail)
		}
		for _, b := range page.Batches {
			learned.add(b.Last(), int64(len(b.Bytes)))
			after = b.Last()
		}
	}
	lv.sizes = learned
	return nil
}

// makeRoom holds the bounds of the stream, its tenant and the process for c: the
// stream gives up its oldest events, and if those are not enough, c is refused.
func (m *commits) makeRoom(lv *live, c *call) error {
	st := &lv.staged
	own, others := m.over(lv, c)
	if own <= 0 && others <= 0 {
		return nil
	}
	if lv.sizes.unknown {
		had := lv.sizes.total
		if err := m.learn(lv); err != nil {
			return err
		}
		st.kept += lv.sizes.total - had
		own, others = m.over(lv, c)
	}
	if others > st.kept && c.end == nil { // a stream can always end: that is what lets it be swept
		return fmt.Errorf("%w: tenant %s", ErrQuota, lv.key.Tenant)
	}
	st.trim(lv, lv.sizes.oldest(max(own, others))+1)
	return nil
}

// over is by how much c would exceed the bound of the stream, and those of tenant and process.
func (m *commits) over(lv *live, c *call) (own, others int64) {
	kept := lv.staged.kept + int64(c.size)
	if lv.key.Tenant != SystemTenant {
		others = m.usage.over(lv.tenant, kept-lv.info.Bytes)
	}
	return kept - lv.retention.MaxBytes, others
}

// trim moves the start of the window to earliest, if that is later.
func (st *staged) trim(lv *live, earliest uint64) {
	if earliest > st.earliest {
		st.earliest = earliest
		st.kept -= lv.sizes.before(earliest)
	}
}

// trim carries out Stream.Trim.
func (m *commits) trim(ctx context.Context, lv *live, before uint64) error {
	if m.log.Shared() {
		lv.stale = true // another replica may have appended
	}
	if err := m.ready(lv); err != nil {
		return err
	}
	switch {
	case before > lv.info.Tail+1:
		return fmt.Errorf("%w: trim before %d, the tail is %d", ErrInvalid, before, lv.info.Tail)
	case before <= lv.info.Earliest:
		return nil
	}
	if lv.sizes.unknown {
		if err := m.learn(lv); err != nil {
			return err
		}
	}
	lv.sizes.before(before)
	kept := lv.sizes.total
	if err := m.log.store.Remove(ctx, lv.key, RemoveSpec{Trim: before, Kept: kept, Epoch: lv.epoch}); err != nil {
		lv.stale = true
		return err
	}
	lv.mu.Lock()
	defer lv.mu.Unlock()
	m.usage.add(lv.tenant, kept-lv.info.Bytes)
	lv.info.Earliest, lv.info.Bytes = before, kept
	return nil
}
