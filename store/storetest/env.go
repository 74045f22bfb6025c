package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"reprise"
)

// check is one requirement of a Store.
type check struct {
	name string
	// rule is the sentence of the contract, verbatim.
	rule  string
	needs ability
	run   func(e *env)
}

// ability is an optional feature of a Store.
type ability uint16

const (
	persists ability = 1 << iota
	faults
	sweeps
	sizes
	shares
	watches
	deafens
	cuts
	loses
	fills
)

// env is the environment of a check. Its methods, and stream's, end the check if the Store violates the
// contract.
type env struct {
	ctx     context.Context
	harness Harness
	opts    Options
	store   reprise.Store
	// replicas are other replicas that share has opened.
	replicas []reprise.Store
	// goroutines is the number of goroutines before the Store was opened.
	goroutines int
}

// failure ends a check. It is passed as a panic to attempt, so that checks need no error handling at each step.
type failure struct{ error }

// attempt calls f and returns its failure.
func (e *env) attempt(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = v.error
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

func (e *env) failf(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// noError ends the check if err is not nil. what names the call.
func (e *env) noError(err error, what string, args ...any) {
	if err != nil {
		e.failf("%s: %w", fmt.Sprintf(what, args...), err)
	}
}

// wantError ends the check if err does not wrap want.
func (e *env) wantError(err, want error, what string, args ...any) {
	if !errors.Is(err, want) {
		e.failf("%s: the error is %v, want %v", fmt.Sprintf(what, args...), err, want)
	}
}

// concurrently calls f with 0 to n-1 in n goroutines. It waits for all of them, and ends the check with the first
// failure.
func (e *env) concurrently(n int, f func(i int)) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = e.attempt(func() { f(i) }) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			panic(failure{err})
		}
	}
}

// open opens the Store. After close or crash it opens it again.
func (e *env) open() {
	store, err := e.harness.Open()
	e.noError(err, "open")
	e.store = store
}

// share opens another replica and returns its environment, which is closed with e.
func (e *env) share() *env {
	store, err := e.harness.Share()
	e.noError(err, "open another replica")
	e.replicas = append(e.replicas, store)
	return &env{ctx: e.ctx, harness: e.harness, opts: e.opts, store: store}
}

func (e *env) close() {
	e.noError(e.store.Close(), "close")
	e.store = nil
}

func (e *env) reopen() {
	e.close()
	e.open()
}

// until calls done repeatedly until it returns true.
func (e *env) until(done func() bool, what string) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.NewTimer(e.opts.patience)
	defer deadline.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			e.failf("after %v: %s", e.opts.patience, what)
		case <-e.ctx.Done():
			e.failf("%s: %w", what, context.Cause(e.ctx))
		}
	}
}

// pause lets time pass, so that concurrent calls reach different places.
func (e *env) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
	}
}

// now returns the current time with the precision of the times of streams.
func now() time.Time { return time.UnixMilli(time.Now().UnixMilli()).UTC() }

func key(name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
}

// create creates a stream of the default tenant.
func (e *env) create(name string) *stream {
	return e.createKey(key(name), reprise.StreamConfig{})
}

func (e *env) createKey(k reprise.StreamKey, config reprise.StreamConfig) *stream {
	return e.createInfo(reprise.StreamInfo{Key: k, Config: config})
}

// createInfo creates a stream with the fields of want and an epoch of its own.
func (e *env) createInfo(want reprise.StreamInfo) *stream {
	want.Epoch, want.Created = reprise.NewEpoch(), now()
	info, err := e.store.Create(e.ctx, want)
	e.noError(err, "create %s", want.Key)
	want.Earliest = want.Tail + 1
	e.sameInfo(info, want)
	return &stream{
		e: e, key: want.Key, epoch: want.Epoch, first: want.Epoch, owner: want.Owner, info: want,
		earliest: want.Earliest, tail: want.Tail, end: want.End,
	}
}

// sameInfo compares all of two states except their producers.
func (e *env) sameInfo(got, want reprise.StreamInfo) {
	same := got.Key == want.Key && got.Epoch == want.Epoch && got.Config.Equal(want.Config) &&
		got.Revision == want.Revision &&
		got.Created.Equal(want.Created) && got.Owner == want.Owner && got.Earliest == want.Earliest &&
		got.Tail == want.Tail &&
		got.Bytes == want.Bytes && sameEnd(got.End, want.End) && slices.Equal(got.Lineage, want.Lineage)
	if !same {
		e.failf("%s: got %s\n\twant %s", want.Key, describe(got), describe(want))
	}
}

func describe(i reprise.StreamInfo) string {
	end := "not ended"
	if i.End != nil {
		end = fmt.Sprintf("ended %+v", *i.End)
	}
	return fmt.Sprintf("{%s epoch %s, created %v, owner %+v, kept %d to %d, %d bytes, %+v (%d), %s, lineage %v}",
		i.Key, i.Epoch, i.Created, i.Owner, i.Earliest, i.Tail, i.Bytes, i.Config, i.Revision, end, i.Lineage)
}

func sameEnd(a, b *reprise.End) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Outcome == b.Outcome && a.Time.Equal(b.Time) && a.Expires.Equal(b.Expires) &&
		string(a.Data) == string(b.Data)
}
