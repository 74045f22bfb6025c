package natsstore

import (
	"context"
	"errors"
	"slices"

	"reprise"
	"reprise/store/internal/driver"
)

// Append stores batches; see reprise.Store. Each batch is a message that the server accepts only if the newest message
// of its stream is the expected one. All messages are sent at once, and then Append waits for all answers. A batch that
// is too large for one message costs one more round trip.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) (errs []error) {
	defer func(caller context.Context) { driver.Map(caller, errs, storeError) }(ctx)
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer leave()
	if err := s.hold(ctx, 1); err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer s.changing.Release(1)
	a := &appends{s: s, items: make([]appendItem, len(reqs))}
	for i := range reqs {
		a.items[i].req = &reqs[i]
		a.items[i].last = s.cache.last(reqs[i].Key)
	}
	a.run(ctx)
	for i := range a.items {
		if err := a.items[i].err; err != nil {
			errs = driver.Refuse(errs, len(reqs), i, err)
		}
	}
	return errs
}

// concurrentAppends is the number of commits that a Log has under way at a time. A commit that needs further round
// trips, for the parts of a large batch or an end, then delays a quarter of the streams. Concurrent commits do not make
// a busy server faster.
const concurrentAppends = 4

// ConcurrentAppends returns a constant; see reprise.Concurrent.
func (s *Store) ConcurrentAppends() int { return concurrentAppends }

// appends is the state of one call of Append.
type appends struct {
	s      *Store
	items  []appendItem
	server string // id of the server whose start the round relies on; see boot
}

// appendItem is one request of a commit.
type appendItem struct {
	req   *reprise.AppendRequest
	last  *entry // the newest message of the stream, nil if unknown
	fresh bool   // last was read in this call
	parts []part // of the batch, once they are written
	data  []part // of the end
	noted bool   // the expiry of the stream is noted
	next  *state
	done  bool
	err   error
}

func (i *appendItem) finish(err error) { i.done, i.err = true, err }

// run works in rounds until each request is stored or rejected. The first round settles most of them. Another round
// follows for streams whose cached state was out of date.
func (a *appends) run(ctx context.Context) {
	for {
		a.forgetOlder(ctx)
		a.load(ctx)
		var send []*appendItem
		for i := range a.items {
			if item := &a.items[i]; !item.done && a.check(item) {
				send = append(send, item)
			}
		}
		if len(send) > 0 {
			a.send(ctx, send)
		}
		left := func(item appendItem) bool { return !item.done }
		if !slices.ContainsFunc(a.items, left) {
			return
		}
		if ctx.Err() != nil {
			for i := range a.items {
				if !a.items[i].done {
					a.items[i].finish(ended(ctx))
				}
			}
			return
		}
	}
}

// forgetOlder drops the cached state of streams that may have lost events in a restart of the server, so that they are
// read again.
func (a *appends) forgetOlder(ctx context.Context) {
	at, err := a.s.started(ctx)
	if err == nil && at.server != a.server {
		for i := range a.items { // what was sent to the server before may be lost
			item := &a.items[i]
			item.parts, item.data, item.noted = nil, nil, false
		}
	}
	a.server = at.server
	for i := range a.items {
		switch item := &a.items[i]; {
		case item.done:
		case err != nil:
			item.finish(err)
		case isOfBefore(item.last, at.first), item.last != nil && item.last.server != at.server:
			// A sequence of another start, however high, may belong to another message now.
			item.last = nil
		}
	}
}

// load reads the newest message of the streams whose newest message is unknown.
func (a *appends) load(ctx context.Context) {
	var missing []*appendItem
	for i := range a.items {
		if item := &a.items[i]; !item.done && item.last == nil {
			missing = append(missing, item)
		}
	}
	parallel(len(missing), func(i int) {
		item := missing[i]
		last, err := a.s.current(ctx, item.req.Key)
		switch {
		case err != nil:
			item.finish(err)
		case last == nil:
			a.s.cache.forget(item.req.Key)
			item.finish(reprise.ErrNotFound)
		default:
			item.last, item.fresh = last, true
			a.s.cache.replace(item.req.Key, last)
		}
	})
}

// check reports whether item can be sent. A rejection based on cached state is not final: the stream is read first.
func (a *appends) check(item *appendItem) bool {
	err := refusal(item.last.state, item.req)
	switch {
	case err == nil:
		return true
	case item.fresh:
		item.finish(err)
	default:
		item.last = nil
	}
	return false
}

// refusal returns the error with which a stream in the state st rejects a request, or nil.
func refusal(st *state, req *reprise.AppendRequest) error {
	if st.gone {
		return reprise.ErrNotFound
	}
	return driver.Refusal(&reprise.StreamInfo{
		Epoch: st.epoch, Owner: st.owner, End: st.end, Tail: st.tail, Revision: st.revision,
	}, req)
}

// send writes the messages of items.
func (a *appends) send(ctx context.Context, items []*appendItem) {
	var slow []*appendItem
	for _, item := range items {
		if len(item.req.Bytes) > a.s.room || item.req.End != nil {
			slow = append(slow, item)
		}
	}
	parallel(len(slow), func(i int) {
		if err := a.prepare(ctx, slow[i]); err != nil {
			slow[i].finish(err)
		}
	})
	items = slices.DeleteFunc(items, func(i *appendItem) bool { return i.done })
	posts := make([]post, len(items))
	for i, item := range items {
		item.next = after(item.last, item.req)
		item.next.parts, item.next.data = item.parts, item.data
		item.next.bulky = item.next.bulky || len(item.parts)+len(item.data) > 0
		posts[i] = post{
			subject: a.s.subjects.stream(item.req.Key), state: item.next, expected: item.last.seq, server: a.server,
		}
		if len(item.parts) == 0 {
			posts[i].body = item.req.Bytes
		}
	}
	a.s.post(ctx, posts)
	for i, item := range items {
		a.settle(item, &posts[i])
	}
}

// settle processes the server's answer to an item.
func (a *appends) settle(item *appendItem, p *post) {
	switch {
	case p.err == nil:
		item.finish(nil)
		last := &entry{state: item.next, seq: p.seq, server: p.server}
		if a.s.cache.appended(item.req.Key, last, len(item.req.Bytes)+messageBytes) {
			a.s.tidy.trim(item.req.Key)
		}
	case errors.Is(p.err, errWrongLast):
		item.last, item.fresh = nil, false
	default: // the cached state stays, so that a loss of events can be detected
		item.finish(p.err)
	}
}

// messageBytes is the approximate size of a message without its body.
const messageBytes = 350

// prepare writes what must exist before the message does: the parts of a large batch, and the note that the stream will
// expire.
func (a *appends) prepare(ctx context.Context, item *appendItem) (err error) {
	req := item.req
	if len(req.Bytes) > a.s.room && item.parts == nil {
		if item.parts, err = a.s.putParts(ctx, a.s.subjects.parts(req.Key), req.Bytes); err != nil {
			return err
		}
	}
	if req.End != nil && !item.noted {
		if item.data, err = a.s.noteEnd(ctx, req.Key, req.Epoch, req.End); err != nil {
			return err
		}
		item.noted = true
	}
	return nil
}

// maxEndData is the largest data of an end that is stored in a state. Larger data is stored in messages of its own.
const maxEndData = 1 << 10

// noteEnd writes what must exist before a stream ends.
func (s *Store) noteEnd(ctx context.Context, key reprise.StreamKey, epoch reprise.Epoch, end *reprise.End) (
	data []part, err error,
) {
	if len(end.Data) > maxEndData {
		if data, err = s.putParts(ctx, s.subjects.data(key), end.Data); err != nil {
			return nil, err
		}
	}
	e := ending{key: key, epoch: epoch, expires: end.Expires.UnixMilli()}
	p := []post{{subject: s.subjects.minute(end.Expires), body: e.encode(), unconditional: true}}
	s.post(ctx, p)
	return data, p[0].err
}

// after returns the state of a stream after req was appended.
func after(last *entry, req *reprise.AppendRequest) *state {
	next := &state{
		epoch: last.epoch, renewed: last.renewed, created: last.created, index: last.index,
		revision: last.revision, config: last.config, bulky: last.bulky,
		earliest: max(last.earliest, req.Earliest), tail: last.tail + uint64(req.Count), kept: req.Kept,
		owner: req.Owner, end: req.End, producers: withProducers(last.producers, req.Producers), lineage: last.lineage,
		first: req.First, count: req.Count, sum: sumOf(req.Bytes),
	}
	next.batches, next.skips = last.follow(next.earliest)
	return next
}

// follow returns the number of batches including the one in the message, and their places, for the next message.
func (e *entry) follow(earliest uint64) (batches uint64, skips []skip) {
	batches, skips = e.batches, slices.Clone(e.skips)
	if e.count > 0 {
		skips = advance(skips, batches, skip{seq: e.seq, first: e.first})
		batches++
	}
	// Skips that point before the window are useless, except that the newest such batch may reach into the window.
	for len(skips) > 1 && skips[len(skips)-1].first < earliest {
		skips = skips[:len(skips)-1]
	}
	return batches, skips
}

func withProducers(known, fresh []reprise.Producer) []reprise.Producer {
	if len(fresh) == 0 {
		return known
	}
	return driver.Remember(slices.Clone(known), fresh)
}
