package reprise

import "context"

// longPageBytes is how much a reader takes from the store at a time once it has read a page and goes on.
const longPageBytes = 1 << 20

// prefetch is a page that is read while the one before is handed out, so that a long replay does not wait
// for the store after each page.
type prefetch struct {
	after uint64
	done  chan struct{} // closed when the rest is set
	page  Page
	err   error
}

// prefetch begins to read the page after page, if there is one that is not in memory. It is called from the second page
// in a row on: most of those who resume need one.
func (r *Reader) prefetch(page *Page) {
	lv, log := r.live, r.stream.log
	if r.last >= page.Info.Tail || lv.isHot(r.last+1) {
		return
	}
	p := &prefetch{after: r.last, done: make(chan struct{})}
	if log.background.start(func(ctx context.Context) {
		defer close(p.done)
		p.page, p.err = log.readPage(ctx, lv.key, p.after, longPageBytes)
	}) {
		r.coming = p
	}
}

// nextPage is the page after what was handed out. One that could not be read before it was asked for is read again.
func (r *Reader) nextPage(ctx context.Context) (Page, error) {
	p := r.coming
	r.coming = nil
	if p == nil || p.after != r.next-1 {
		return r.stream.log.readPage(ctx, r.live.key, r.next-1, pageBytes)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return Page{}, context.Cause(ctx)
	}
	if p.err != nil || len(p.page.Batches) == 0 {
		return r.stream.log.readPage(ctx, r.live.key, r.next-1, pageBytes)
	}
	return p.page, nil
}

// isHot reports whether the event next is in memory.
func (lv *live) isHot(next uint64) bool {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return len(lv.blocks) > 0 && next >= lv.blocks[0].first
}
