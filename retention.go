package reprise

import (
	"context"
	"slices"
)

// sizeIndex records how many bytes of a stream precede a seq, in steps that are small compared with the kept bytes. It
// answers how far to trim to free some bytes, and how many bytes a trim frees.
//
// The bytes that were kept when the stream came into memory are one coarse step. It is measured from its oldest events
// on, as far as trims need it, so that a large stream is not read completely.
type sizeIndex struct {
	steps []sizeStep // oldest first
	total int64      // of all steps
	// coarse is the number of steps up to and including the unmeasured one; 0 if there is none.
	coarse int
}

// sizeStep is the size of the events after the previous step, up to last.
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

// before removes the entries wholly before seq earliest and returns their bytes.
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

// oldest returns the seq up to which at least over bytes lie, or all if there are fewer. ok is false if the coarse step
// would have to be divided for it.
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

// unmeasured returns the range of the coarse step; ok is false if there is none.
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

// measured divides the coarse step: batches are its oldest ones, the first of which contains the event first. It
// returns the error of the total once the whole step is measured.
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

// makeRoom enforces the bounds of the stream, its tenant and the process for c: the stream drops its oldest events, and
// if that is not enough, c is refused.
func (m *lane) makeRoom(st *staged, c *call) error {
	own, others := m.over(st, c)
	if own <= 0 && others.bytes <= 0 {
		return nil
	}
	endAlone := c.end != nil && len(c.events)-c.skip == 1 // a stream can always end, so that it can be swept
	if others.bytes > st.kept && !endAlone {
		return others.refusal()
	}
	last, ok := st.live.sizes.oldest(max(own, others.bytes))
	if !ok {
		c.need = max(own, others.bytes)
		return errUnmeasured
	}
	st.trim(last + 1)
	return nil
}

// over returns by how much c would exceed the bounds of the stream, and the bounds that it shares with others: those of
// its account, its tenant and the process.
func (m *lane) over(st *staged, c *call) (own int64, others excess) {
	lv, kept := st.live, st.kept+int64(c.size)
	if lv.key.Tenant != SystemTenant {
		others = m.log.usage.over(lv.charged, kept-lv.info.Bytes)
	}
	return kept - lv.retention.MaxBytes, others
}

// trim moves the start of the window to earliest, if that is later.
func (st *staged) trim(earliest uint64) {
	if earliest > st.earliest {
		st.earliest = earliest
		st.kept -= st.live.sizes.before(earliest)
	}
}

// bytesBefore returns the result that before would have.
func (x *sizeIndex) bytesBefore(earliest uint64) (bytes int64) {
	for _, step := range x.steps {
		if step.last < earliest {
			bytes += step.bytes
		}
	}
	return bytes
}

// evictIfFull evicts unused streams if there is no room for one more. It is called before that one is admitted, which
// might otherwise be evicted before its first use.
func (l *Log) evictIfFull(ctx context.Context) {
	l.mu.Lock()
	full := len(l.streams) >= max(l.opts.MaxStreams, l.evictAbove)
	l.mu.Unlock()
	for i := range l.lanes {
		if !full {
			return
		}
		// No commit of the lane may be under way, since it may be about to publish to one of the streams.
		_ = l.lanes[i].exclusively(ctx, func() error {
			full = l.evict(&l.lanes[i])
			return nil
		})
	}
}

// evict evicts streams of a lane until an eighth of the room is free. A stream that was used since the last time is
// spared the first time, one with readers always. If too many remain, the next attempt is made after an eighth more
// have come, so that not every new stream costs a look at all of them. It returns true if there are still too many.
func (l *Log) evict(lane *lane) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	enough := l.opts.MaxStreams - l.opts.MaxStreams/8
	for range 2 {
		for key, lv := range l.streams {
			if len(l.streams) <= enough {
				break
			}
			if lv.lane != lane {
				continue
			}
			lv.mu.Lock()
			if lv.readers == 0 && !lv.used && lv.held == nil {
				lv.gone = errEvicted // its handles look up the stream again
				l.hotBytes.Add(-lv.cool())
				delete(l.streams, key)
			}
			lv.used = false
			lv.mu.Unlock()
		}
	}
	l.evictAbove = len(l.streams) + l.opts.MaxStreams/8
	return len(l.streams) > enough
}

// coolIfFull drops the hot tails of unused streams, and all but the newest block of the others, until an eighth of the
// room for hot tails is free. As with evict, a failed attempt is not repeated for each event.
func (l *Log) coolIfFull() {
	room := l.opts.TailTotalBytes
	if l.hotBytes.Load() <= max(room, l.coolAbove.Load()) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lv := range l.streams {
		if l.hotBytes.Load() <= room-room/8 {
			break
		}
		lv.mu.Lock()
		if lv.readers == 0 && !lv.used {
			l.hotBytes.Add(-lv.cool())
		} else {
			l.hotBytes.Add(-lv.trimHot(0))
		}
		lv.used = false
		lv.mu.Unlock()
	}
	l.coolAbove.Store(l.hotBytes.Load() + room/8)
}
