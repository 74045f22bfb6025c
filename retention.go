package reprise

import (
	"slices"
)

// sizeIndex knows how many bytes of a stream lie before a seq, in steps that are
// small beside what is kept: it is asked how far to trim to get rid of some bytes, and
// how many bytes a trim gets rid of.
//
// What was kept when the stream came into memory is one coarse step. It is measured from its oldest events on, as
// far as trims need it, so that a large stream is not read as a whole.
type sizeIndex struct {
	steps []sizeStep // oldest first
	total int64      // of all steps
	// coarse is the number of steps up to and with the one that is not measured; 0 if there is none.
	coarse int
}

// sizeStep is the bytes of the events after the step before, up to last.
type sizeStep struct {
	last  uint64
	bytes int64
}

// stepShare bounds a step to this part of the kept bytes.
const stepShare = 256

func (x *sizeIndex) reset(info *StreamInfo) {
	*x = sizeIndex{}
	if info.Bytes > 0 {
		x.steps = []sizeStep{{last: info.Tail, bytes: info.Bytes}}
		x.total = info.Bytes
		x.coarse = 1
	}
}

// add counts a batch.
func (x *sizeIndex) add(last uint64, bytes int64) {
	x.total += bytes
	n := len(x.steps)
	if n > x.coarse && x.steps[n-1].bytes+bytes <= x.total/stepShare {
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
	x.coarse = max(0, x.coarse-n)
	return bytes
}

// oldest says up to which seq at least over bytes lie, or all if there are fewer. ok is false if the
// coarse step would have to be divided for it.
func (x *sizeIndex) oldest(over int64) (last uint64, ok bool) {
	all := over >= x.total
	for i, step := range x.steps {
		if over <= 0 {
			break
		}
		if i == x.coarse-1 && !all {
			return 0, false
		}
		over -= step.bytes
		last = step.last
	}
	return last, true
}

// unmeasured is where the coarse step begins and ends; ok is false if there is none.
func (x *sizeIndex) unmeasured(earliest uint64) (first, last uint64, ok bool) {
	if x.coarse == 0 {
		return 0, 0, false
	}
	first = earliest
	if x.coarse > 1 {
		first = x.steps[x.coarse-2].last + 1
	}
	return first, x.steps[x.coarse-1].last, true
}

// measured divides the coarse step: batches are its oldest ones, the first of which holds the event first. It returns
// by how much the total was wrong, once all of the step is measured.
func (x *sizeIndex) measured(first uint64, batches []Batch) (correction int64) {
	coarse := x.steps[x.coarse-1]
	known := sizeIndex{steps: slices.Clone(x.steps[:x.coarse-1]), total: x.total}
	total := x.total
	for _, b := range batches {
		if b.Last() < first || b.First > coarse.last {
			continue
		}
		size := int64(len(b.Bytes))
		known.total -= size // which add counts again: the total is that of the whole index
		known.add(min(b.Last(), coarse.last), size)
		coarse.bytes -= size
	}
	n := len(known.steps)
	rest := x.steps[x.coarse:]
	x.coarse = 0
	if n == 0 || known.steps[n-1].last < coarse.last {
		coarse.bytes = max(coarse.bytes, 0)
		known.steps = append(known.steps, coarse)
		x.coarse = n + 1
	}
	x.steps = append(known.steps, rest...)
	x.total = 0
	for _, step := range x.steps {
		x.total += step.bytes
	}
	return x.total - total
}

// makeRoom holds the bounds of the stream, its tenant and the process for c: the
// stream gives up its oldest events, and if those are not enough, c is refused.
func (m *lane) makeRoom(lv *live, c *call) error {
	st := &lv.staged
	own, others, by := m.over(lv, c)
	if own <= 0 && others <= 0 {
		return nil
	}
	if others > st.kept && c.end == nil { // a stream can always end: that is what lets it be swept
		return by.refusal()
	}
	last, ok := lv.sizes.oldest(max(own, others))
	if !ok {
		c.need = max(own, others)
		return errUnmeasured
	}
	st.trim(lv, last+1)
	return nil
}

// over is by how much c would exceed the bound of the stream, and those of account, tenant and process: by is the one
// that would be exceeded the most.
func (m *lane) over(lv *live, c *call) (own, others int64, by QuotaError) {
	kept := lv.staged.kept + int64(c.size)
	if lv.key.Tenant != SystemTenant {
		others, by = m.log.usage.over(lv.charged, kept-lv.info.Bytes)
	}
	return kept - lv.retention.MaxBytes, others, by
}

// trim moves the start of the window to earliest, if that is later.
func (st *staged) trim(lv *live, earliest uint64) {
	if earliest > st.earliest {
		st.earliest = earliest
		st.kept -= lv.sizes.before(earliest)
	}
}

// bytesBefore is what before would return.
func (x *sizeIndex) bytesBefore(earliest uint64) (bytes int64) {
	for _, step := range x.steps {
		if step.last < earliest {
			bytes += step.bytes
		}
	}
	return bytes
}
