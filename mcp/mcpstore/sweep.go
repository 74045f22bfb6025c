package mcpstore

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"reprise"
)

// idle is how long an idle writer is kept.
const idle = time.Minute

// sweepEvery sweeps until the keeper is closed.
func (k *keeper) sweepEvery() {
	tick := time.NewTicker(k.opts.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := k.Sweep(k.ctx); err != nil && k.ctx.Err() == nil {
			k.opts.Logger.Warn("sweep of MCP streams failed", "error", err)
		}
	}
}

// Sweep removes expired streams and returns their number; see "How long streams are kept" in the package
// documentation. It also runs by itself every Options.SweepEvery. The error comes from the Log; the next sweep removes
// the remaining streams.
func (k *keeper) Sweep(ctx context.Context) (removed int, err error) {
	k.dropIdle(ctx)
	now, used := time.Now(), k.used()
	q := reprise.ListQuery{Tenant: k.opts.Tenant, AllNamespaces: true, Limit: 1000}
	for {
		page, err := k.log.List(ctx, q)
		if err != nil {
			return removed, err
		}
		for i := range page.Streams {
			due, err := k.isDue(ctx, &page.Streams[i], now)
			if due && err == nil && !used[page.Streams[i].Key] {
				err = k.log.Remove(ctx, page.Streams[i].Key)
				removed++
			}
			if err != nil {
				return removed, err
			}
		}
		if page.Next == "" {
			return removed, nil
		}
		q.After = page.Next
	}
}

// dropIdle lets go of the writers whose streams have had their response, or are not there any more. One that was
// given up for another reason stays: its numbers must not be taken up again by a writer that knows nothing of what
// was lost.
func (k *keeper) dropIdle(ctx context.Context) {
	since := time.Now().Add(-idle)
	for _, w := range k.idlers(since) {
		w.mu.Lock()
		gone := w.gone
		w.mu.Unlock()
		if gone == nil {
			info, err := w.stream.Info(ctx)
			if err != nil {
				continue
			}
			if _, isResponse, err := lastMessage(ctx, w.stream, &info); err != nil || !isResponse {
				continue
			}
		} else if unlessGone(gone) != nil {
			continue
		}
		k.drop(w, since)
	}
}

// idlers are the writers that were not used since.
func (k *keeper) idlers(since time.Time) (idlers []*writer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, streams := range k.sessions {
		for _, w := range streams {
			w.mu.Lock()
			if !w.last.After(since) {
				idlers = append(idlers, w)
			}
			w.mu.Unlock()
		}
	}
	return idlers
}

// isDue reports whether a stream is to be removed.
func (k *keeper) isDue(ctx context.Context, info *reprise.StreamInfo, now time.Time) (bool, error) {
	old, silent := now.Add(-k.opts.Retention.MaxAge), now.Add(-k.opts.MaxSilence)
	if !strings.HasPrefix(info.Key.Namespace(), namespacePrefix) || info.Created.After(old) {
		return false, nil
	}
	if info.Kept() == 0 {
		return !info.Created.After(silent), nil
	}
	s, err := k.log.Stream(ctx, info.Key)
	if err != nil {
		return false, unlessGone(err)
	}
	last, isResponse, err := lastMessage(ctx, s, info)
	if err != nil {
		return false, unlessGone(err)
	}
	if isResponse {
		return !last.After(old), nil
	}
	return !last.After(silent), nil
}

// used are the streams that have a writer here.
func (k *keeper) used() map[reprise.StreamKey]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	used := map[reprise.StreamKey]bool{}
	for _, streams := range k.sessions {
		for _, w := range streams {
			used[w.key] = true
		}
	}
	return used
}

// lastMessage describes the last message of a stream that has one.
func lastMessage(ctx context.Context, s *reprise.Stream, info *reprise.StreamInfo) (
	at time.Time, isResponse bool, err error,
) {
	if info.Kept() == 0 {
		return info.Created, false, nil
	}
	reader, err := s.Reader(ctx, reprise.After(s.Cursor(info.Tail-1)))
	if err != nil {
		return time.Time{}, false, err
	}
	defer reader.Close()
	events, err := reader.Poll(ctx)
	if err != nil {
		return time.Time{}, false, err
	}
	for e := range events.All() {
		at, isResponse = e.Time, false
		if e.Type == typeMessage {
			var m struct {
				Method        *string
				Result, Error json.RawMessage
			}
			isResponse = json.Unmarshal(e.Data, &m) == nil && m.Method == nil && (m.Result != nil || m.Error != nil)
		}
	}
	return at, isResponse, nil
}

// unlessGone is nil for a stream that has gone in between, or that lies outside its window by now.
func unlessGone(err error) error {
	_, moved := errors.AsType[*reprise.WindowError](err)
	if moved || errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return nil
	}
	return err
}
