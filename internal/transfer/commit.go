package transfer

import (
	"context"

	"reprise"
)

// pending is a batch that waits for its commit.
type pending struct {
	req  reprise.AppendRequest
	done chan error // buffered
}

// A commit takes all waiting batches, each of another stream, up to these bounds.
const (
	maxCommitBatches = 500
	maxCommitBytes   = 8 << 20
)

// commits appends the batches of the queue until it is closed. Batches of different streams that arrive during a commit
// go into the next one together.
func (c *copier) commits(ctx context.Context) {
	var group []*pending
	var reqs []reprise.AppendRequest
	for p := range c.queue {
		group, reqs = append(group[:0], p), append(reqs[:0], p.req)
		for bytes := len(p.req.Bytes); len(group) < maxCommitBatches && bytes < maxCommitBytes; {
			select {
			case p, ok := <-c.queue:
				if ok {
					group, reqs = append(group, p), append(reqs, p.req)
					bytes += len(p.req.Bytes)
					continue
				}
			default:
			}
			break
		}
		errs := c.to.Append(ctx, reqs)
		for i, p := range group {
			if errs != nil {
				p.done <- errs[i]
			} else {
				p.done <- nil
			}
		}
		clear(group)
		clear(reqs)
	}
}

// append appends one batch. The worker waits for it, so a commit holds at most one batch of a stream.
func (c *copier) append(req reprise.AppendRequest) error {
	p := &pending{req: req, done: make(chan error, 1)}
	c.queue <- p
	err := <-p.done
	if err == nil {
		c.events.Add(int64(req.Count))
		c.bytes.Add(int64(len(req.Bytes)))
	}
	return err
}
