// Package storecheck reads everything in a store to find damage.
package storecheck

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// Streams calls check for each stream that list returns, page after page, and collects the faults that it finds, a
// sentence each. An error ends it.
func Streams(
	ctx context.Context,
	list func(context.Context, reprise.ListQuery) (reprise.ListPage, error),
	check func(context.Context, reprise.StreamKey) (fault string, err error),
) (faults []string, err error) {
	q := reprise.ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := list(ctx, q)
		if err != nil {
			return faults, err
		}
		for i := range page.Streams {
			fault, err := check(ctx, page.Streams[i].Key)
			if err != nil {
				return faults, err
			}
			if fault != "" {
				faults = append(faults, fault)
			}
		}
		if q.After = page.Next; q.After == "" {
			return faults, nil
		}
	}
}

// Batches reads all batches of a stream. fault says what is wrong: the error of a read for which damaged is true, or
// what complete, which may be nil, says of the last page and the sequence number of the last event before it. A stream
// that is removed meanwhile has no fault.
func Batches(
	ctx context.Context,
	read func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error),
	key reprise.StreamKey,
	damaged func(error) bool,
	complete func(page reprise.Page, after uint64) (fault string),
) (fault string, err error) {
	for after := uint64(0); ; {
		page, err := read(ctx, key, after, 1<<20)
		switch {
		case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
			return "", nil
		case err != nil && damaged(err):
			return err.Error(), nil
		case err != nil:
			return "", err
		case len(page.Batches) > 0:
			after = page.Batches[len(page.Batches)-1].Last()
		case complete == nil:
			return "", nil
		default:
			return complete(page, after), nil
		}
	}
}

// Missing is the fault of a stream whose last page, which is empty, follows the event after: events that are within
// its window and are not there.
func Missing(page reprise.Page, after uint64) (fault string) {
	if first := max(after+1, page.Info.Earliest); first <= page.Info.Tail {
		return fmt.Sprintf("events %d to %d are missing", first, page.Info.Tail)
	}
	return ""
}
