package upkeep

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/transfer"
)

// ErrOthers: a store is not moved into one that has streams of its own.
var ErrOthers = errors.New("the target holds streams that the source does not have")

// Move copies all that lies in from, as it lies there within its wrappers, into the store to, with the marker and the
// names of starts, so that a server goes on with to as if it were from. No server uses either store meanwhile. An
// earlier Move may have come to any point: what from no longer has, or has in another form, is removed from to if that
// is ours, and is ErrOthers if it is not.
func Move(ctx context.Context, from, to reprise.Store, ours bool, progress func(transfer.Progress)) (
	transfer.Result, error,
) {
	if err := removeOthers(ctx, from, to, ours); err != nil {
		return transfer.Result{}, fmt.Errorf("move: %w", err)
	}
	result, err := transfer.Copy(ctx, from, to, &transfer.Options{Markers: true, Progress: progress})
	if err == nil && len(result.Moving) > 0 {
		err = fmt.Errorf("move: %w: stream %s was appended to meanwhile", reprise.ErrConflict, result.Moving[0])
	}
	return result, err
}

// removeOthers removes the streams of to that from does not have.
func removeOthers(ctx context.Context, from, to reprise.Store, ours bool) error {
	there, err := all(ctx, to)
	if err != nil || len(there) == 0 {
		return err
	}
	have, err := all(ctx, from)
	if err != nil {
		return err
	}
	for key, copied := range there {
		info, ok := have[key]
		if ok && info.Epoch == copied.Epoch && info.Config.Equal(copied.Config) {
			continue
		}
		if !ours {
			return fmt.Errorf("%w: %s", ErrOthers, key)
		}
		if err := to.Remove(ctx, key, reprise.RemoveSpec{}); err != nil {
			return err
		}
	}
	return nil
}

// all returns all streams of a store.
func all(ctx context.Context, store reprise.Store) (map[reprise.StreamKey]reprise.StreamInfo, error) {
	found := map[reprise.StreamKey]reprise.StreamInfo{}
	q := reprise.ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Streams {
			found[info.Key] = info
		}
		if q.After = page.Next; q.After == "" {
			return found, nil
		}
	}
}
