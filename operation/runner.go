package operation

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise"
	"reprise/replica"
)

// Options are the settings of a Runner. The zero value of each field means its default.
type Options struct {
	// Replica knows which processes live. It is required for a Log whose store is shared, and must be closed after the
	// Runner.
	Replica *replica.Member
	// Keep is how long the record is kept after success. It is part of an operation: the same key with another Keep is
	// refused with reprise.ErrConflict. Default: 24 hours.
	Keep time.Duration
}

// Job is the work of an operation. It does all that has an effect outside of the process in steps of op, which is not
// to be used after Job has returned. ctx is done when Run's is, when the Runner is closed (the cause is then
// reprise.ErrClosed), and when another attempt has taken over (reprise.ErrFenced).
type Job func(ctx context.Context, op *Operation) ([]byte, error)

// Runner runs operations that are recorded in a Log. A process needs one Runner for each Log. On a store that is not
// shared, two Runners would take each other's attempts for a dead process's. A Runner is safe for concurrent
// use.
type Runner struct {
	log    *reprise.Log
	member *replica.Member
	keep   time.Duration
	id     string // distinguishes our attempts from others
	unhook func()

	// ctx is the context of the appends that record the end of attempts; it ends with the Runner.
	ctx  context.Context // the life of the Runner
	stop context.CancelCauseFunc
	runs sync.WaitGroup // calls of Run
	work sync.WaitGroup // what goes on after them

	mu      sync.Mutex
	closing bool
	active  map[string]*attempt // ours, by id
	waiters map[*waiter]bool
}

const defaultKeep = 24 * time.Hour

// New returns a Runner for the operations that are recorded in log. Close the Runner before log. The error is
// reprise.ErrInvalid if the store of log is shared and there is no Replica. opts may be nil.
func New(log *reprise.Log, opts *Options) (*Runner, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case o.Replica == nil && log.Shared():
		return nil, fmt.Errorf("%w: operations in a store that is shared need Options.Replica", reprise.ErrInvalid)
	case o.Keep < 0:
		return nil, fmt.Errorf("%w: a negative Options.Keep", reprise.ErrInvalid)
	case o.Keep == 0:
		o.Keep = defaultKeep
	}
	r := &Runner{
		log: log, member: o.Replica, keep: o.Keep, id: rand.Text(), unhook: func() {},
		active: map[string]*attempt{}, waiters: map[*waiter]bool{},
	}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	if o.Replica != nil {
		r.unhook = o.Replica.Watch(replica.Watch{Left: r.left, Fenced: r.fenced})
	}
	return r, nil
}

// unbounded is a retention that cuts no record.
const unbounded = 1 << 40

// config is the configuration of the stream of an operation.
func (r *Runner) config(input []byte) reprise.StreamConfig {
	return reprise.StreamConfig{
		Meta:      input,
		Retention: reprise.Retention{MaxEvents: unbounded, MaxBytes: unbounded, MaxAge: r.keep},
	}
}

// Run runs job under a key, continues it after the steps that an earlier attempt has recorded, or waits for the running
// attempt; see the package comment. It returns the result of job, or the recorded result. It blocks until job has
// returned, even if job ignores its context. The input, at most 64 KiB, is part of the operation: the same key with
// another input is refused with reprise.ErrConflict for as long as the record is kept.
//
// The error is what job returns, a *FailedError if the running attempt failed while Run waited for it,
// reprise.ErrFenced if another attempt has taken over, reprise.ErrClosed after Close, an error of the Log, or the cause
// if ctx is cancelled. The caller owns the result.
func (r *Runner) Run(ctx context.Context, key reprise.StreamKey, input []byte, job Job) ([]byte, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.runs.Done()
	for {
		result, again, err := r.try(ctx, key, input, job)
		if !again {
			return bytes.Clone(result), err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (r *Runner) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return errClosed
	}
	r.runs.Add(1)
	return nil
}

// try waits for the attempt that is at work, or makes one. again is true if the record has to be looked at anew.
func (r *Runner) try(ctx context.Context, key reprise.StreamKey, input []byte, job Job) (
	result []byte, again bool, err error,
) {
	s, _, err := r.log.Create(ctx, key, r.config(input))
	if err != nil {
		return nil, false, err
	}
	f, err := follow(ctx, s)
	if err != nil {
		return nil, isOver(err), err
	}
	defer f.reader.Close()
	fence, err := f.catchUp(ctx)
	if err != nil {
		return nil, isOver(err), err
	}
	if f.Done {
		return f.Result, false, nil
	}
	alive, err := r.alive(ctx, f.record)
	switch {
	case err != nil:
		return nil, false, err
	case alive:
		return r.await(ctx, f)
	}
	a, err := r.claim(ctx, s, f, fence+1)
	if err != nil {
		return nil, isOver(err), err
	}
	result, err = a.perform(job)
	return result, false, err
}

// Show returns the record of an operation, running or not. It returns the same errors as Log.Stream.
func (r *Runner) Show(ctx context.Context, key reprise.StreamKey) (Record, error) {
	s, err := r.log.Stream(ctx, key)
	if err != nil {
		return Record{}, err
	}
	f, err := follow(ctx, s)
	if err != nil {
		return Record{}, err
	}
	defer f.reader.Close()
	if _, err := f.catchUp(ctx); err != nil {
		return Record{}, err
	}
	f.Input = bytes.Clone(f.Input)
	return f.Record, nil
}

// alive reports whether the newest attempt of a record is at work.
func (r *Runner) alive(ctx context.Context, rec *record) (bool, error) {
	newest := rec.newest
	switch {
	case newest.ID == "" || rec.over != "":
		return false, nil
	case newest.Runner == r.id:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.active[newest.ID] != nil, nil
	case r.member == nil:
		return false, nil // no other process has the store
	case r.member.Alive(newest.Replica):
		return true, nil
	}
	// It joined before its attempt began, so one that is not there now has gone.
	if err := r.member.Look(ctx); err != nil {
		return false, err
	}
	return r.member.Alive(newest.Replica), nil
}

// waiter waits for an attempt.
type waiter struct {
	attempt entry
	cancel  context.CancelCauseFunc
}

// errGone is why a wait ends: the process of the attempt has gone, or the attempt is over here.
var errGone = errors.New("the attempt is over")

// await follows a record until its attempt is over.
func (r *Runner) await(ctx context.Context, f *follower) (result []byte, again bool, err error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &waiter{f.newest, cancel}
	if err := r.join(w); err != nil {
		return nil, false, err
	}
	defer r.leave(w)
	if alive, err := r.alive(ctx, f.record); !alive || err != nil { // it may have gone just before
		return nil, err == nil, err
	}
	for {
		run, err := f.reader.Next(waiting)
		if err != nil {
			return nil, errors.Is(err, errGone) || isOver(err), err
		}
		for event := range run.All() {
			if err := f.apply(event); err != nil {
				return nil, false, err
			}
			switch {
			case f.Done:
				return f.Result, false, nil
			case f.over == typeFailed:
				return nil, false, &FailedError{Attempt: f.newest.Attempt, Reason: f.Failure}
			case f.over == typeLeft || f.newest.ID != w.attempt.ID:
				return nil, true, nil
			}
		}
	}
}

// join has w woken when its attempt is over.
func (r *Runner) join(w *waiter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return errClosed
	}
	r.waiters[w] = true
	return nil
}

func (r *Runner) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiters, w)
}

// wake ends the waits for the attempts that which selects.
func (r *Runner) wake(which func(entry) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.waiters {
		if which(w.attempt) {
			w.cancel(errGone)
		}
	}
}

// left is called when a replica has left.
func (r *Runner) left(name string) {
	r.wake(func(e entry) bool { return e.Replica == name && e.Runner != r.id })
}

// fenced is called when other replicas have declared this process dead under a name.
func (r *Runner) fenced(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.active {
		if a.entry.Replica == name {
			a.cancel(errFenced)
		}
	}
}

// errFenced is the cause with which a job is cancelled that other processes may continue.
var errFenced = fmt.Errorf("%w: this process was taken for dead", reprise.ErrFenced)

// errClosed is the error of calls after Close.
var errClosed = fmt.Errorf("%w: the Runner of operations", reprise.ErrClosed)

// Close cancels the jobs that run here with reprise.ErrClosed, lets those that wait go with it, and returns when all
// calls of Run have. An attempt that cannot be recorded as over, because the store fails, is over for other processes
// when the Replica leaves. Closing again does nothing.
func (r *Runner) Close() error {
	r.mu.Lock()
	r.closing = true
	for _, a := range r.active {
		a.cancel(errClosed)
	}
	for w := range r.waiters {
		w.cancel(errClosed)
	}
	r.mu.Unlock()
	r.runs.Wait()
	r.stop(errClosed)
	r.work.Wait()
	r.unhook()
	return nil
}
