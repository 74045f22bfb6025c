package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"reprise"
)

// Append stores batches; see reprise.Store. Each is a message that the server takes if nothing has come
// after the newest message that is known of its stream; all are sent at once and their answers
// awaited together. A batch that is too large for a message costs one more round trip.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) (errs []error) {
	defer func(caller context.Context) { storeErrors(caller, errs) }(ctx)
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer leave()
	a := &appends{s: s, items: make([]appendItem, len(reqs))}
	for i := range reqs {
		a.items[i].req = &reqs[i]
		a.items[i].last = s.cache.last(reqs[i].Key)
	}
	a.run(ctx)
	for i := range a.items {
		if err := a.items[i].err; err != nil {
			if errs == nil {
				errs = make([]error, len(reqs))
			}
			errs[i] = err
		}
	}
	return errs
}

// concurrentAppends is how many commits a Log has under way at a time. One that needs further round trips, for the
// parts of a large batch or an end, then holds up a quarter of the streams. It makes a server that is busy no faster.
const concurrentAppends = 4

// ConcurrentAppends is always the same; see reprise.Concurrent.
func (s *Store) ConcurrentAppends() int { return concurrentAppends }

// appends is a commit.
type appends struct {
	s     *Store
	items []appendItem
}

// appendItem is one request of a commit.
type appendItem struct {
	req   *reprise.AppendRequest
	last  *entry // the newest message of the stream, nil where it is not known
	fresh bool   // last was read in this call
	parts []part // of the batch, when they are written
	data  []part // of the end
	noted bool   // that the stream will expire
	next  *state
	done  bool
	err   error
}

func (i *appendItem) finish(err error) { i.done, i.err = true, err }

// run goes through rounds until each request is stored or refused. In the first round most of them are;
// there is another one for those whose stream was not as it was believed to be.
func (a *appends) run(ctx context.Context) {
	for {
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

// load reads the newest message of the streams of which it is not known.
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

// check reports whether item is to be sent. A refusal by what was believed is none: the stream is read first.
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

// refusal is the error with which a stream in that state refuses a request.
func refusal(st *state, req *reprise.AppendRequest) error {
	switch {
	case st.gone || st.epoch != req.Epoch:
		return reprise.ErrNotFound
	case req.Owner != st.owner && req.Owner.Fence <= st.owner.Fence:
		return fmt.Errorf("%w: the owner is %q", reprise.ErrFenced, st.owner.Name)
	case st.end != nil:
		return reprise.ErrEnded
	case req.First != st.tail+1:
		return fmt.Errorf("%w: a batch that begins with %d, the tail is %d", reprise.ErrConflict, req.First, st.tail)
	}
	return nil
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
		posts[i] = post{subject: a.s.subjects.stream(item.req.Key), state: item.next, expected: item.last.seq}
		if len(item.parts) == 0 {
			posts[i].body = item.req.Bytes
		}
	}
	a.s.post(ctx, posts)
	for i, item := range items {
		a.settle(item, &posts[i])
	}
}

// settle looks at the answer of the server.
func (a *appends) settle(item *appendItem, p *post) {
	switch {
	case p.err == nil:
		item.finish(nil)
		if a.s.cache.appended(item.req.Key, &entry{state: item.next, seq: p.seq}, len(item.req.Bytes)+messageBytes) {
			a.s.tidy.trim(item.req.Key)
		}
	case errors.Is(p.err, errWrongLast):
		item.last, item.fresh = nil, false
	default: // what is known of the stream stays, to find out whether the server loses some of it
		item.finish(p.err)
	}
}

// messageBytes is what a message takes beside its body, about.
const messageBytes = 350

// prepare writes what must be there before the message is: the parts of a large batch, and the
// note that the stream will expire.
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

// maxEndData is how large the data of an end may be in a state. What is larger lies in messages of its own.
const maxEndData = 1 << 10

// noteEnd writes what must be there before a stream ends.
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

// after is the state that follows when req is appended.
func after(last *entry, req *reprise.AppendRequest) *state {
	next := &state{
		epoch: last.epoch, renewed: last.renewed, created: last.created, index: last.index, bulky: last.bulky,
		earliest: max(last.earliest, req.Earliest), tail: last.tail + uint64(req.Count), kept: req.Kept,
		owner: req.Owner, end: req.End, producers: withProducers(last.producers, req.Producers), lineage: last.lineage,
		first: req.First, count: req.Count, sum: sumOf(req.Bytes),
	}
	next.batches, next.skips = last.follow(next.earliest)
	return next
}

// follow is how many batches there are with the one in the message, and where they are, for the message after it.
func (e *entry) follow(earliest uint64) (batches uint64, skips []skip) {
	batches, skips = e.batches, slices.Clone(e.skips)
	if e.count > 0 {
		skips = advance(skips, batches, skip{seq: e.seq, first: e.first})
		batches++
	}
	// Those before the window lead nowhere; but the newest batch may reach into it.
	for len(skips) > 1 && skips[len(skips)-1].first < earliest {
		skips = skips[:len(skips)-1]
	}
	return batches, skips
}

func withProducers(known, fresh []reprise.Producer) []reprise.Producer {
	if len(fresh) == 0 {
		return known
	}
	all := slices.Clone(known)
	for _, p := range fresh {
		all = slices.DeleteFunc(all, func(k reprise.Producer) bool { return k.ID == p.ID })
		all = append(all, p)
	}
	return all[max(0, len(all)-reprise.MaxProducers):]
}
