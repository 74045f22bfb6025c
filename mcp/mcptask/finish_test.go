package mcptask_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// endingStore calls first in place of the first append that ends a task.
type endingStore struct {
	reprise.Store
	first func(req reprise.AppendRequest) error
	met   atomic.Bool
}

func (s *endingStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	for _, r := range reqs {
		if r.End == nil || !strings.HasPrefix(r.Key.Name, "mcp-task:") || s.met.Swap(true) {
			continue
		}
		if err := s.first(r); err != nil {
			errs := make([]error, len(reqs))
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	return s.Store.Append(ctx, reqs)
}

// TestResultIsWholeAfterItsPartsAreLost: a promotion takes back the parts of a long result before the end is kept.
func TestResultIsWholeAfterItsPartsAreLost(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	inner := hub.Store()
	defer inner.Close()
	store := &losingStore{Store: inner}
	store.ending = &endingStore{Store: inner, first: func(req reprise.AppendRequest) error {
		page, err := inner.Read(t.Context(), req.Key, 0, 1<<30)
		if err != nil {
			return err
		}
		last := page.Batches[len(page.Batches)-1]
		if last.Count < 3 {
			t.Errorf("the parts are not one batch: %d events", last.Count)
		}
		return hub.Lose(t.Context(), req.Key, last.First-1)
	}}
	log := newLog(t, store)
	defer log.Close()
	w := newFixtureOn(t, log, nil)
	defer w.close()
	const n = 1<<20 + 7
	a := w.until(w.task("long_result", fmt.Sprintf(`{"bytes":%d}`, n)), mcptask.Completed)
	if got := a.Result.Result.Content[0]["text"].(string); got != strings.Repeat("x", n) || !store.ending.met.Load() {
		t.Errorf("of %d bytes came %d", n, len(got))
	}
}

// TestGetSurvivesLossDuringRead: a promotion takes back events of a task while it is read. The task is read again, and
// the client sees no error of the store.
func TestGetSurvivesLossDuringRead(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	store := &losingReads{Store: hub.Store(), hub: hub}
	defer store.Close()
	log, err := reprise.Open(t.Context(), store, &reprise.Options{TailBytes: 1, TailTotalBytes: 1, MaxStreams: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	w := newFixtureOn(t, log, nil)
	defer w.close()
	id := w.task("multi_input", `{}`)
	w.until(id, mcptask.InputRequired)
	w.update(id, `{"first":{"action":"decline"},"second":{"action":"decline"}}`)
	w.until(id, mcptask.Completed)
	w.tasks.Close()
	for i := range 4 { // which put the task out of memory
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint("other/", i)}
		if _, _, err := log.Create(t.Context(), key, reprise.StreamConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	store.armed.Store(true)
	if a := w.get(id); a.Error != nil || a.Result.TaskID != id {
		t.Errorf("the task whose events were lost is %+v", a)
	}
	if store.armed.Load() {
		t.Error("nothing was lost")
	}
}

// losingReads is a shared Store that loses what follows a position when it is asked for it, once it is armed.
type losingReads struct {
	*shared.Store
	hub   *shared.Hub
	armed atomic.Bool
}

func (s *losingReads) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	reprise.Page, error,
) {
	if s.armed.Load() {
		maxBytes = min(maxBytes, 1) // a batch at a time
	}
	page, err := s.Store.Read(ctx, key, after, maxBytes)
	if err == nil && after > 0 && after < page.Info.Tail && s.armed.CompareAndSwap(true, false) {
		if err := s.hub.Lose(ctx, key, after-1); err != nil {
			return reprise.Page{}, err
		}
		return s.Store.Read(ctx, key, after, maxBytes)
	}
	return page, err
}

// losingStore is a shared Store whose appends go through ending.
type losingStore struct {
	*shared.Store
	ending *endingStore
}

func (s *losingStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	return s.ending.Append(ctx, reqs)
}

// TestEndIsCountedWhenItsAcknowledgementIsLost: the end that is tried again is a duplicate, not that of somebody else.
func TestEndIsCountedWhenItsAcknowledgementIsLost(t *testing.T) {
	inner := memstore.New(nil)
	store := &endingStore{Store: inner, first: func(req reprise.AppendRequest) error {
		if errs := inner.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
			t.Error(errs)
		}
		return fmt.Errorf("the answer is lost: %w", reprise.ErrUnavailable)
	}}
	log := newLog(t, store)
	defer log.Close()
	ended := make(chan mcptask.Status, 2)
	w := newFixtureOn(t, log,
		&mcptask.Options{Hooks: &mcptask.Hooks{Ended: func(_ reprise.Tenant, s mcptask.Status) { ended <- s }}})
	w.until(w.task("slow_compute", `{"label":"x"}`), mcptask.Completed)
	w.close()
	if !store.met.Load() || len(ended) != 1 || <-ended != mcptask.Completed {
		t.Errorf("%d ends were counted", len(ended))
	}
}
