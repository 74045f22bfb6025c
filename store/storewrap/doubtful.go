package storewrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"reprise"
)

func anyUnavailable(errs []error) bool {
	for _, err := range errs {
		if errors.Is(err, reprise.ErrUnavailable) {
			return true
		}
	}
	return false
}

// doubtful is an append of which some requests may have been stored.
type doubtful struct {
	store *retrying
	all   []reprise.AppendRequest
	errs  []error
	// settled is true for a request that will not be retried, whatever its error is.
	settled []bool
}

func (a *doubtful) open(i int) bool {
	return !a.settled[i] && errors.Is(a.errs[i], reprise.ErrUnavailable)
}

// again retries the requests that failed for a temporary cause.
func (a *doubtful) again(ctx context.Context) {
	var reqs []reprise.AppendRequest
	var places []int
	for i := range a.errs {
		if a.open(i) {
			reqs, places = append(reqs, a.all[i]), append(places, i)
		}
	}
	errs := a.store.Inner.Append(ctx, reqs)
	for n, i := range places {
		var err error
		if errs != nil {
			err = errs[n]
		}
		a.errs[i], a.settled[i] = a.verdict(ctx, &reqs[n], err)
	}
}

// verdict returns the result of a request that was in doubt before err, and whether the result is final.
func (a *doubtful) verdict(ctx context.Context, req *reprise.AppendRequest, err error) (_ error, settled bool) {
	if !mayBeOwn(err) {
		return err, false
	}
	page, rerr := a.store.Inner.Read(ctx, req.Key, req.First-1, max(1, len(req.Bytes)))
	fork, shared := page.Info.ForkOf(
		req.Epoch,
	) // a loss may have moved the stream to another epoch after the batch was stored
	switch {
	case isAbsent(rerr):
		return err, true
	case rerr != nil: // a rejection would mean that it was not stored
		return rerr, false
	case !shared || fork < req.First:
		return err, true
	case len(page.Batches) == 0 || page.Batches[0].First > req.First: // it was trimmed, so its content is unknown
		last := req.First + uint64(req.Count) - 1
		if i := page.Info; i.Tail == last && i.Earliest == req.Earliest && i.Bytes == req.Kept && req.Earliest > last {
			return nil, true // by this append itself
		}
		return fmt.Errorf("%w: whether the batch at %d was stored is no longer known", reprise.ErrUnavailable,
			req.First), true
	}
	if b := page.Batches[0]; b.First == req.First && b.Count == req.Count && bytes.Equal(b.Bytes, req.Bytes) {
		return nil, true
	}
	return err, true
}

// mayBeOwn reports whether an append may have been rejected because an earlier try has stored it.
func mayBeOwn(err error) bool {
	for _, refusal := range []error{reprise.ErrConflict, reprise.ErrEnded, reprise.ErrFenced, reprise.ErrNotFound} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// left returns an error while a request is in doubt.
func (a *doubtful) left() error {
	for i, err := range a.errs {
		if a.open(i) {
			return err
		}
	}
	return nil
}

// fail ends the retries with a cause.
func (a *doubtful) fail(cause error) {
	for i := range a.errs {
		if a.open(i) {
			a.errs[i] = cause
		}
	}
}

func (a *doubtful) result() []error {
	for _, err := range a.errs {
		if err != nil {
			return a.errs
		}
	}
	return nil
}
