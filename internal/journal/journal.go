// Package journal keeps records of the server itself in an order that is the same for all who follow them: in a file,
// or in a stream that the replicas of a store share. It calls back with each record, waits for the follower's own, and
// begins again where a store has lost some.
package journal

import (
	"context"
	"sync"
)

// Journal keeps records in an order that is the same for all followers. Implementations are safe for concurrent use.
type Journal interface {
	// Append keeps a record, and returns once the Sink of Follow has taken it.
	Append(ctx context.Context, record []byte) error
	// Follow hands the records to sink until ctx is done: those that are kept, and then those that come. It calls the
	// functions of sink from one goroutine at a time. It is called once.
	Follow(ctx context.Context, sink Sink) error
}

// Sink receives the records of a Journal.
type Sink struct {
	// Begin is called before the first record. It is called again where a store has lost records: then all follow anew.
	Begin func()
	// Take is given a record, which it must not change.
	Take func(record []byte)
	// Ready is called after Begin when all records that were kept by then were taken.
	Ready func()
}

// Follower follows a Journal until Close.
type Follower struct {
	stop context.CancelFunc
	done chan struct{}
}

// Open begins to follow a Journal, and returns when all records that were kept were taken. ctx bounds that. The error
// is that of the Journal, or the cause of ctx.
func Open(ctx context.Context, from Journal, sink Sink) (*Follower, error) {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &Follower{stop: stop, done: make(chan struct{})}
	read, failed := make(chan struct{}), make(chan error, 1)
	ready, once := sink.Ready, sync.Once{}
	sink.Ready = func() { ready(); once.Do(func() { close(read) }) }
	go func() {
		defer close(f.done)
		failed <- from.Follow(following, sink)
	}()
	var err error
	select {
	case <-read:
		return f, nil
	case err = <-failed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	f.Close()
	return nil, err
}

// Close stops following. f may be nil.
func (f *Follower) Close() {
	if f != nil {
		f.stop()
		<-f.done
	}
}
