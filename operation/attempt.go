package operation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"reprise"
)

// attempt is one run of a job, by this process.
type attempt struct {
	runner *Runner
	stream *reprise.Stream
	record *record
	entry  entry
	owner  reprise.Owner

	// ctx is the job's.
	ctx    context.Context // the life of the attempt
	cancel context.CancelCauseFunc
	// appender records steps. It outlives ctx, so that a step that was done after the job was cancelled is recorded.
	appender *reprise.Appender
	endLife  context.CancelCauseFunc

	released chan struct{} // closed when others may continue, or when we cannot enable them to
}

// recordPatience limits how long an append is retried while the store fails, once the job was cancelled.
const recordPatience = 5 * time.Second

// claim makes the next attempt at an operation whose newest attempt is over. It takes over the stream and then reads
// the whole record. isOver reports whether an error means that another attempt was faster.
func (r *Runner) claim(ctx context.Context, s *reprise.Stream, f *follower, fence uint64) (*attempt, error) {
	a := &attempt{runner: r, stream: s, record: f.record, released: make(chan struct{})}
	a.entry = entry{Attempt: fence, ID: rand.Text(), Runner: r.id}
	if r.member != nil {
		if a.entry.Replica = r.member.Name(); a.entry.Replica == "" {
			return nil, fmt.Errorf("%w: this replica was taken for dead and has not joined again",
				reprise.ErrUnavailable)
		}
	}
	a.owner = reprise.Owner{Name: a.entry.ID, Fence: fence}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	life, endLife := context.WithCancelCause(r.ctx)
	a.endLife = endLife
	a.appender = s.Appender(life, &reprise.AppenderOptions{Owner: a.owner})
	if err := a.enlist(); err != nil {
		a.giveUp()
		return nil, err
	}
	claimed, err := a.patiently(func() (reprise.Appended, error) {
		return a.appender.Append(a.entry.event(typeAttempt))
	})
	if err == nil {
		err = f.readTo(ctx, claimed.Last)
	}
	if err != nil { // the claim may have been kept all the same
		a.release(err)
		return nil, err
	}
	if r.member != nil && r.member.Name() != a.entry.Replica {
		a.cancel(errFenced)
	}
	return a, nil
}

// enlist makes the attempt known as one of ours that is alive.
func (a *attempt) enlist() error {
	a.runner.mu.Lock()
	defer a.runner.mu.Unlock()
	if a.runner.closing {
		return errClosed
	}
	a.runner.active[a.entry.ID] = a
	return nil
}

// patiently calls appendAll, which repeats itself while the store fails, and ends that a while after the job was
// cancelled.
func (a *attempt) patiently(appendAll func() (reprise.Appended, error)) (reprise.Appended, error) {
	done := make(chan struct{})
	defer close(done)
	defer context.AfterFunc(a.ctx, func() {
		patience := time.NewTimer(recordPatience)
		defer patience.Stop()
		select {
		case <-done:
		case <-patience.C:
			a.endLife(context.Cause(a.ctx))
		}
	})()
	return appendAll()
}

// giveUp marks an attempt as over.
func (a *attempt) giveUp() {
	a.cancel(nil)
	a.endLife(nil)
	a.runner.mu.Lock()
	delete(a.runner.active, a.entry.ID)
	a.runner.mu.Unlock()
	a.runner.wake(func(e entry) bool { return e.ID == a.entry.ID })
	close(a.released)
}

// perform runs the job and records how it ended.
func (a *attempt) perform(job Job) (result []byte, err error) {
	op := &Operation{attempt: a, busy: map[string]bool{}}
	returned := false
	defer func() {
		if !returned { // it has panicked, or ended its goroutine
			a.release(errors.New("the job did not return"))
		}
	}()
	result, err = job(a.ctx, op)
	returned = true
	if err == nil {
		err = a.end(result)
	}
	if err != nil {
		a.release(err)
		return nil, err
	}
	a.giveUp()
	return result, nil
}

// end records the success of the job.
func (a *attempt) end(result []byte) error {
	if err := checkResult(result); err != nil {
		return err
	}
	_, err := a.patiently(func() (reprise.Appended, error) {
		return a.appender.End(outcomeCompleted, entry{Result: result}.event(reprise.TypeEnd))
	})
	return err
}

// release records that the attempt is over, and why. It returns once the record is kept or was refused, or after
// recordPatience; in the last case it continues in the background.
func (a *attempt) release(why error) {
	kind := typeFailed
	if a.ctx.Err() != nil {
		kind = typeLeft
	}
	event := entry{Error: clip(why.Error())}.event(kind)
	a.runner.work.Go(func() {
		defer a.giveUp()
		// Not with a.appender, which must repeat first what it could not record. The error says that another attempt
		// has taken over, that the stream is gone, or that the Runner is.
		_, _ = a.stream.Appender(a.runner.ctx, &reprise.AppenderOptions{Owner: a.owner}).Append(event)
	})
	a.waitReleased()
}

// waitReleased waits until the attempt is over for others, for recordPatience at most.
func (a *attempt) waitReleased() {
	patience := time.NewTimer(recordPatience)
	defer patience.Stop()
	select {
	case <-a.released:
	case <-patience.C:
	}
}

// maxError bounds the text of an error in a record.
const maxError = 4 << 10

func clip(text string) string {
	if len(text) > maxError {
		return text[:maxError] + "..."
	}
	return text
}
