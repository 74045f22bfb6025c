package reprise

import (
	"context"
	"errors"
)

// Ready asks whether the Store can serve: it lists a stream, and if the last commit found the store
// unavailable, it also writes something small, since a store that is full can still be read. The error is
// that of the store, or ErrClosed.
func (l *Log) Ready(ctx context.Context) error {
	if _, err := l.List(ctx, ListQuery{Tenant: SystemTenant, Limit: 1}); err != nil {
		return err
	}
	if !l.failing.Load() {
		return nil
	}
	key := StreamKey{Tenant: SystemTenant, Name: "probe:" + string(NewEpoch())}
	_, err := l.store.Create(ctx, StreamInfo{Key: key, Epoch: NewEpoch(), Created: now()})
	if err == nil {
		err = l.store.Remove(ctx, key, RemoveSpec{})
	}
	if err == nil {
		l.failing.Store(false)
	}
	return err
}

// noteHealth remembers whether the store could be written to.
func (m *commits) noteHealth(errs []error) {
	failed := false
	for _, err := range errs {
		failed = failed || errors.Is(err, ErrUnavailable)
	}
	if failed != m.log.failing.Load() {
		m.log.failing.Store(failed)
	}
}
