package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"

	"reprise"
	"reprise/internal/problem"
)

// The most that one request takes of what waits. The server takes 1 MiB.
const (
	maxTogether      = 1000
	maxTogetherBytes = 512 << 10
)

// publication is a call of a Producer that has not returned.
type publication struct {
	r      *request
	events []byte // JSON values separated by commas; nil for a request that goes alone
	count  int    // of events

	sent *together // the request that it is a part of, nil while it waits
	done chan struct{}
	// What the call returns, once done is closed.
	published Published
	err       error
}

// together is a request for several publications. It is cancelled when no caller waits for it any more.
type together struct {
	waiting int
	cancel  context.CancelCauseFunc
}

// send sends one numbered request. Publications that wait while another request is under way go together in the next
// one.
func (p *Producer) send(ctx context.Context, r *request, events []byte, count int) (Published, error) {
	if err := checkName(r.op, p.name); err != nil {
		return Published{}, err
	}
	if ctx.Err() != nil {
		return Published{}, context.Cause(ctx)
	}
	own := &publication{r: r, events: events, count: count, done: make(chan struct{})}
	p.mu.Lock()
	p.queue = append(p.queue, own)
	p.mu.Unlock()
	for {
		select {
		case <-own.done:
			return own.published, own.err
		case <-ctx.Done():
			p.leave(own, context.Cause(ctx))
			return Published{}, context.Cause(ctx)
		case p.turn <- struct{}{}:
			go p.sendTogether(context.WithoutCancel(ctx))
		}
	}
}

// leave gives up a publication, whose caller returns.
func (p *Producer) leave(own *publication, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own.sent == nil {
		p.queue = slices.DeleteFunc(p.queue, func(other *publication) bool { return other == own })
		return
	}
	if own.sent.waiting--; own.sent.waiting == 0 {
		own.sent.cancel(cause)
	}
}

// next takes the publications that go into the next request.
func (p *Producer) next(cancel context.CancelCauseFunc) []*publication {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, count, size := 0, 0, 0
	for _, one := range p.queue {
		count, size = count+one.count, size+len(one.events)
		if n > 0 && (one.events == nil || p.queue[0].events == nil || count > maxTogether || size > maxTogetherBytes) {
			break
		}
		n++
	}
	batch := slices.Clone(p.queue[:n])
	p.queue = slices.Delete(p.queue, 0, n)
	sent := &together{waiting: n, cancel: cancel}
	for _, one := range batch {
		one.sent = sent
	}
	return batch
}

// sendTogether sends what waits in one request, and passes on the turn.
func (p *Producer) sendTogether(ctx context.Context) {
	defer func() { <-p.turn }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batch := p.next(cancel)
	if len(batch) == 0 { // another request has taken it
		return
	}
	r := batch[0].r
	if len(batch) > 1 {
		var body bytes.Buffer
		body.WriteString(`{"events":[`)
		for i, one := range batch {
			if i > 0 {
				body.WriteByte(',')
			}
			body.Write(one.events)
		}
		body.WriteString("]}")
		r = &request{
			op: r.op, method: r.method, path: r.path, body: body.Bytes(),
			header: http.Header{"Content-Type": {jsonType}},
		}
	}
	published, err := p.sendNow(ctx, r)
	if len(batch) > 1 && refusedAsAWhole(err) { // each for itself: one of them is wrong, or all together are too much
		for _, one := range batch {
			one.published, one.err = p.sendNow(ctx, one.r)
			close(one.done)
		}
		return
	}
	for _, one := range batch {
		one.published, one.err = published, err
		if len(batch) > 1 && err == nil {
			one.published, published.First = part(published, one.count)
		}
		close(one.done)
	}
}

// refusedAsAWhole reports whether a request was refused for its contents, so that nothing of it was appended.
func refusedAsAWhole(err error) bool {
	e, ok := errors.AsType[*Error](err)
	p, refused := problem.As(err)
	return ok && refused && e.Tries == 1 && (p.Code == problem.CodeInvalid || p.Code == problem.CodePayloadTooLarge)
}

// part returns what was published of the first count events of a request, and the seq of the one after them.
func part(all Published, count int) (Published, uint64) {
	if all.First == 0 { // they are no longer known
		return all, 0
	}
	one := all
	one.Last = all.First + uint64(count) - 1
	if c, err := reprise.ParseCursor(all.Cursor); err == nil {
		c.Seq = one.Last
		one.Cursor = c.String()
	}
	return one, one.Last + 1
}
