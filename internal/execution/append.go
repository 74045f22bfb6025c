package execution

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/execution/command"
)

// eventStarted is the type of the first event of an execution whose process was started.
const eventStarted = "started"

// eventOf is the event that a chunk of output becomes.
func eventOf(c *command.Chunk) reprise.Event {
	e := reprise.Event{Time: c.Time, Type: Stdout, Format: reprise.FormatBytes, Data: c.Data}
	switch c.Kind {
	case command.Stderr:
		e.Type = Stderr
	case command.Started:
		e.Type, e.Format = eventStarted, reprise.FormatMembers
	case command.Stdout:
	}
	return e
}

// write appends output. An error means that the rest cannot be kept; the run is ended then.
func (r *Run) write(chunks []command.Chunk) error {
	events := make([]reprise.Event, len(chunks))
	for i := range chunks {
		events[i] = eventOf(&chunks[i])
	}
	err := r.append(events)
	if err != nil {
		r.cannotAppend(err)
	}
	return err
}

// cannotAppend ends a run whose output cannot be appended any more.
func (r *Run) cannotAppend(err error) {
	switch {
	case errors.Is(err, reprise.ErrFenced):
		r.fence()
	case isFull(err):
		r.dropRest()
	default:
		r.Logger().Error("the output of an execution cannot be kept", "error", err)
		r.Stop(command.Verdict{Outcome: Cancelled, Reason: notKept, Now: true})
	}
}

// stalled reports that the command has waited for the store.
func (r *Run) stalled(d time.Duration) {
	if hook := r.host.opts.Hooks.Stalled; hook != nil {
		hook(r.key.Tenant, d)
	}
}

// noRoom is the note on a run whose last output was dropped, and noRoomForList that on its artifacts.
const (
	noRoom        = "its last output was dropped, because the store was full when it was to end"
	noRoomForList = "there is no room for the list of the kept files"
)

// notKept is the reason of a cancelled run whose output could not be kept, or the note on a run that had ended already.
const notKept = "its output could not be kept"

// writing is how a run appends to its stream. It belongs to the goroutine that does.
type writing struct {
	appender *reprise.Appender
	// cut: output was lost that the store had acknowledged, or that was in the spool.
	cut bool
	// dropped is set once output was dropped because there was no room; then all further output is.
	dropped bool
	// hasty is set while events do not wait for room.
	hasty bool
	// lostEvents, if set, is called after the store has lost events and before others are appended.
	lostEvents func() error
}

// kept is what a run has appended, in one consistent view. It is guarded by the mu of the run.
type kept struct {
	bytes  Bytes
	tail   uint64
	coming *counted // including the append under way
	// bytesFrom is the field of ending, if the store has lost output.
	bytesFrom uint64
	// fullSince is when output began to wait until there is room for it in the store, zero if none does, and spoolFull
	// the same of the disk of the supervisor.
	fullSince, spoolFull time.Time
}

// append appends events, in parts where they wait for a follower or are much of what the stream keeps.
func (r *Run) append(events []reprise.Event) error {
	if r.dropped {
		return nil
	}
	for {
		n := r.part(events)
		if r.hold != nil {
			n = min(n, r.hold.fits(events[:n]))
		}
		if err := r.appendTogether(events[:n]); err != nil {
			return err
		}
		if events = events[n:]; len(events) == 0 {
			return nil
		}
	}
}

// keptParts is the number of appends, at least, that a stream keeps of those that are as large as they can be.
const keptParts = 8

// part returns how many events are appended together. A stream drops what it keeps by whole appends, so that one which
// is as large as all that is kept would leave nothing to the next.
func (r *Run) part(events []reprise.Event) int {
	left := r.host.log.Retention(r.config).MaxBytes / keptParts
	for i := range events {
		if left -= int64(len(events[i].Data)); left < 0 && i > 0 {
			return i
		}
	}
	return len(events)
}

func (r *Run) appendTogether(events []reprise.Event) error {
	more := outputOf(events)
	batch := appended{events: len(events), bytes: more.Stdout + more.Stderr}
	if r.hold != nil {
		r.holdBack(batch)
	}
	r.mu.Lock()
	r.coming = &counted{Bytes: r.bytes.Plus(more), Tail: r.tail + uint64(len(events))}
	r.mu.Unlock()
	kept, err := r.persist(!r.hasty, func() (reprise.Appended, error) { return r.appender.Try(events...) })
	if err == nil && r.hold != nil {
		batch.last = kept.Last
		r.hold.add(batch)
	}
	r.mu.Lock()
	r.coming = nil
	if err == nil {
		r.tail, r.bytes = kept.Last, r.bytes.Plus(more)
	}
	r.mu.Unlock()
	if err == nil && r.driver != nil {
		return r.driver.Take(events, kept.Last)
	}
	return err
}

// outputOf counts the output in events.
func outputOf(events []reprise.Event) (b Bytes) {
	for i := range events {
		switch events[i].Type {
		case Stdout:
			b.Stdout += int64(len(events[i].Data))
		case Stderr:
			b.Stderr += int64(len(events[i].Data))
		}
	}
	return b
}

// producerID names the runs as idempotent producers of their streams.
const producerID = "run"

// writeAs makes s the stream that the run appends to, as the producer of an id.
func (r *Run) writeAs(s *reprise.Stream, id string) {
	r.stream = s
	r.appender = s.Appender(r.host.ctx, &reprise.AppenderOptions{ID: id, Owner: r.owner})
}

// persist repeats an attempt of the Appender until the stream accepts or refuses it: while the store does not answer,
// while there is no room for the events, and if the store has lost acknowledged ones. patient is false for events that
// do not wait for room. Output does, until the run is to end; the error is then a *reprise.QuotaError.
func (r *Run) persist(patient bool, try func() (reprise.Appended, error)) (reprise.Appended, error) {
	pause := retries
	stopping := r.Stopping()
	defer r.waitForRoom(nil)
	for {
		appended, err := try()
		full := isFull(err)
		switch {
		case errors.Is(err, reprise.ErrConflict):
			if err := r.realignWithStore(); err != nil {
				return appended, err
			}
			continue
		case full && (!patient || r.isToEnd()):
			return appended, err
		case !errors.Is(err, reprise.ErrUnavailable) && !errors.Is(err, reprise.ErrQuota):
			return appended, err
		}
		if full || errors.Is(err, reprise.DiskFull) {
			r.waitForRoom(err)
		}
		again := time.NewTimer(pause.Next())
		select {
		case <-again.C:
		case <-stopping:
			stopping = nil // once, for the store may stay away
		case <-r.host.ctx.Done():
			err = context.Cause(r.host.ctx)
		}
		again.Stop()
		if r.host.ctx.Err() != nil {
			return appended, err
		}
	}
}

// waitForRoom records that output waits because of why, or that it does no longer if why is nil.
func (r *Run) waitForRoom(why error) {
	r.mu.Lock()
	since := r.fullSince
	switch {
	case why == nil:
		r.fullSince = time.Time{}
	case since.IsZero():
		r.fullSince = time.Now()
	}
	r.mu.Unlock()
	if why != nil {
		r.host.tellFull(r, why)
	}
}

// waitingSince is since when output waits for room in the store or on the disk of the supervisor, zero if none does.
// The caller holds mu.
func (r *Run) waitingSince() time.Time {
	if r.fullSince.IsZero() || !r.spoolFull.IsZero() && r.spoolFull.Before(r.fullSince) {
		return r.spoolFull
	}
	return r.fullSince
}

// fullEvery is the minimum time between two log lines about commands that wait for room.
const fullEvery = time.Minute

// tellFull logs that the output of a run waits for room, once in a while.
func (h *Host) tellFull(r *Run, why error) {
	h.mu.Lock()
	due := h.fullTold.IsZero() || time.Since(h.fullTold) >= fullEvery
	if due {
		h.fullTold = time.Now()
	}
	h.mu.Unlock()
	if due {
		r.Logger().Warn("the store is full: commands wait until there is room for their output",
			"waiting", h.WaitingForStorage(), "error", why)
	}
}

// WaitingForStorage returns the number of running executions whose output waits until there is room for it.
func (h *Host) WaitingForStorage() (n int) {
	h.mu.Lock()
	runs := slices.Collect(maps.Values(h.runs))
	h.mu.Unlock()
	for _, r := range runs {
		r.mu.Lock()
		if !r.waitingSince().IsZero() {
			n++
		}
		r.mu.Unlock()
	}
	return n
}

// isFull reports whether err refuses events by a bound on what all streams keep. Such events were not kept.
func isFull(err error) bool {
	_, full := errors.AsType[*reprise.QuotaError](err)
	return full
}

// isToEnd reports whether the run is to end, or the interpreter that runs it.
func (r *Run) isToEnd() bool {
	return r.IsStopping() || r.outer != nil && r.outer.isToEnd() || r.judgedOutside != nil && r.judgedOutside()
}

// dropRest drops the output that the stream has no room for, now that the run is to end.
func (r *Run) dropRest() {
	r.cut, r.dropped = true, true
	r.Logger().Warn("the last output of an execution was dropped: it is to end, and the store is full")
}

// realignWithStore finds out what the store has kept after it has lost acknowledged events.
func (r *Run) realignWithStore() error {
	if err := r.recount(); err != nil || r.lostEvents == nil {
		return err
	}
	return r.lostEvents()
}

// recount determines the kept output of the stream after its store has lost output.
func (r *Run) recount() (err error) {
	gone := retries.Repeat(r.host.ctx, func() bool {
		err = r.tryRecount()
		return !errors.Is(err, reprise.ErrUnavailable)
	})
	return cmp.Or(gone, err)
}

// firstRetry is the span of the first pause before something that has failed is tried again.
const firstRetry = 10 * time.Millisecond

// retries are the pauses before a store or a supervisor is tried again.
var retries = backoff.Backoff{First: firstRetry, Most: time.Second}

func (r *Run) tryRecount() error {
	info, err := r.stream.Info(r.host.ctx)
	if err != nil {
		return err
	}
	last := r.tail
	if _, err := r.countKept(r.host.ctx, info.Tail); err != nil {
		return err
	}
	r.Logger().Error("the store has lost output of an execution that it had acknowledged",
		"last", last, "kept", info.Tail)
	r.cut = true
	return nil
}

// countKept counts the output of the stream, which has this tail.
func (r *Run) countKept(ctx context.Context, tail uint64) (tally, error) {
	t, err := count(ctx, r.stream, tail)
	if err != nil {
		return t, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes, r.tail, r.coming = t.bytes, tail, nil
	if t.from > 1 {
		r.bytesFrom = t.from
	}
	return t, nil
}

// end ends the run as its command has ended. kept is false if the end could not be appended now, but may be later.
func (r *Run) end(e command.Ending) (kept bool) { return r.endWith(nil, ending{Ending: r.Judge(e)}) }

// endWith appends the end event, together with events that were not appended yet.
func (r *Run) endWith(events []reprise.Event, e ending) (kept bool) {
	if r.driver != nil {
		if r.driver.End(e.Ending) != nil {
			return false
		}
	}
	if r.artifacts != nil && !e.Started.IsZero() && !e.collected {
		e.collected = true
		e.Artifacts, e.ArtifactNotes = r.collect()
	}
	r.host.queue.leave(r)
	more, at := outputOf(events), time.Now() // the same for each try
	if !e.remembered {
		e.remembered = true
		if !r.rememberEnd(&e, at) {
			return false // the next server gives the end
		}
	}
	_, err := r.persist(len(events) > 0, func() (reprise.Appended, error) {
		e.OutputTruncated = e.OutputTruncated || r.cut
		if r.dropped && e.Error == "" {
			e.Error = noRoom
		}
		r.mu.Lock()
		e.Bytes, e.BytesFrom = r.bytes.Plus(more), r.bytesFrom
		r.mu.Unlock()
		end := reprise.Event{Time: at, Format: reprise.FormatMembers, Data: mustMarshal(e)}
		return r.appender.TryEnd(string(e.Outcome), append(events[:len(events):len(events)], end)...)
	})
	switch {
	case err == nil:
	case errors.Is(err, reprise.ErrFenced):
		r.fence() // the owner that has taken the run over has ended it
		return true
	case (r.remote != nil || r.outer != nil) && r.host.ctx.Err() != nil:
		return false // the next server gives it
	case len(events) > 0 && isFull(err):
		r.dropRest()
		return r.endWith(nil, e)
	case isFull(err) && !e.unlisted && len(e.Artifacts)+len(e.ArtifactNotes) > 0: // too long for the reserve of the end
		e.Artifacts, e.ArtifactNotes, e.unlisted = nil, []string{noRoomForList}, true
		return r.endWith(nil, e)
	case len(events) > 0 && !isOver(err):
		r.Logger().Error("the last output of an execution cannot be kept", "error", err)
		r.cut = true
		return r.endWith(nil, e)
	default:
		r.Logger().Error("an execution has no end", "outcome", e.Outcome, "error", err)
		return isOver(err)
	}
	r.host.endKey(r.host.ctx, r.key, &r.config, e.Outcome)
	if hook := r.host.opts.Hooks.Ended; hook != nil {
		hook(r.key.Tenant, e.Outcome, time.Duration(e.DurationMS)*time.Millisecond)
	}
	if hook := r.host.opts.Hooks.Finished; hook != nil && r.request.TraceParent != "" {
		hook(r.request.TraceParent, r.key, e.Outcome)
	}
	return true
}
