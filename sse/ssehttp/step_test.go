package ssehttp_test

import (
	"context"
	"sync/atomic"
	"testing"

	"reprise"
	"reprise/store/memstore"
)

// step is a Store in memory of which one Read of a page can be held.
type step struct {
	*memstore.Store
	count   atomic.Int64  // of pages until the one that is held
	reached chan struct{} // receives when it is
	pass    chan struct{} // lets it be read
}

func newStep(tb testing.TB) *step {
	s := &step{Store: memstore.New(nil), reached: make(chan struct{}, 1), pass: make(chan struct{})}
	tb.Cleanup(func() { check(tb, s.Close()) })
	return s
}

// hold makes the page count from now on wait before it is read.
func (s *step) hold(count int64) { s.count.Store(count) }

func (s *step) release() { s.pass <- struct{}{} }

func (s *step) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if maxBytes > 0 && s.count.Add(-1) == 0 {
		s.reached <- struct{}{}
		<-s.pass
	}
	return s.Store.Read(ctx, key, after, maxBytes)
}
