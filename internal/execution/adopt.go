package execution

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
	"reprise/internal/isolation"
)

// adoptAll adopts the runs that an earlier server has left to their supervisors, and ends the runs whose stream no
// longer exists. The numbered steps are in docs/internals/executions.md.
func (h *Host) adoptAll(ctx context.Context) error {
	if h.supervisors == nil {
		return nil
	}
	entries, err := os.ReadDir(h.supervisors.Dir())
	if err != nil {
		return err
	}
	left := map[reprise.Epoch]bool{}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), supervisor.SparePrefix) {
			left[reprise.Epoch(e.Name())] = true
		}
	}
	waiting := h.waitingFiles(entries)
	if len(left)+len(waiting) == 0 {
		return nil
	}
	open, err := h.unended(ctx)
	if err != nil {
		return err
	}
	queued := h.takeWaiting(open, left, waiting)
	var ours []reprise.StreamInfo
	for i := range open {
		if left[open[i].Epoch] {
			delete(left, open[i].Epoch)
			ours = append(ours, open[i])
		}
	}
	if err := h.adoptEach(ctx, ours); err != nil {
		return err
	}
	for epoch := range left {
		h.caretaker.Go(func() { h.discard(h.supervisors.Remote(string(epoch))) })
	}
	for i := range queued {
		if err := h.requeue(ctx, &queued[i]); err != nil {
			return err
		}
	}
	return nil
}

// maxAdoptions is the number of runs that are adopted at the same time. Each takes up to three open files.
const maxAdoptions = 64

// adoptEach adopts runs side by side, so that supervisors that do not answer are waited for together.
func (h *Host) adoptEach(ctx context.Context, runs []reprise.StreamInfo) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// What appends does not end with ctx, and would wait for a store that is away.
	defer context.AfterFunc(ctx, func() { h.giveUp(context.Cause(ctx)) })()
	var work sync.WaitGroup
	room := make(chan struct{}, maxAdoptions)
	for i := range runs {
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-room }()
			err := h.adopt(ctx, &runs[i])
			switch {
			case isOver(err), errors.Is(err, reprise.ErrFenced): // another replica has taken it for lost
				h.caretaker.Go(func() { h.discard(h.supervisors.Remote(string(runs[i].Epoch))) })
			case err != nil:
				fail(err)
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

// adopt continues a run of an earlier server. The supervisor of the run may have ended or been killed meanwhile.
func (h *Host) adopt(ctx context.Context, info *reprise.StreamInfo) error {
	m := h.supervisors.Remote(string(info.Epoch))
	b := loadBrief(m.Dir)
	req := Request{StdinOpen: b.StdinOpen, KillOnDisconnect: b.KillOnDisconnect, Grace: Duration(b.Grace)}
	r, err := h.takeUp(ctx, info, req)
	if err != nil {
		return err
	}
	r.holder.Principal, r.holder.Operator, r.folder = b.Principal, b.Operator, b.Folder
	r.remote, r.shifts = m, loadShifts(m.Dir, &b)
	r.reader = supervisor.NewReader(m.Dir, r.shifts.next(info.Tail))
	r.cut = r.shifts.Cut
	if err := r.countAgain(ctx); err != nil {
		return err
	}
	if h.opts.Replica != nil {
		if err := r.claim(); err != nil {
			return err
		}
	}
	if name := info.Config.Labels[labelDriver]; name != "" {
		if r.driver, err = h.opts.Drive(name, 0); err == nil {
			err = r.driver.Resume(ctx, r, info.Created)
		}
		if err != nil {
			return err
		}
	}
	if r.artifacts = b.Artifacts; r.artifacts != nil {
		masks, err := h.opts.Isolation.Masks.Current()
		if err != nil {
			return err
		}
		r.artifacts.Masked = append(r.artifacts.Masked, identities(masks)...)
		if r.isolation = b.Isolation; r.isolation == nil { // as a server without collectors has read them
			r.isolation = &isolation.Plan{Level: isolation.None}
		}
		r.artifacts.OpenAgain()
	}
	if err := h.reserve(r); err != nil {
		return err
	}
	r.Logger().Info("an execution goes on")
	h.admit(r)
	return nil
}

// nextOwner returns the owner that takes over the stream of another owner.
func (h *Host) nextOwner(info *reprise.StreamInfo) (reprise.Owner, error) {
	next := reprise.Owner{Name: aloneName, Fence: info.Owner.Fence + 1}
	switch {
	case h.opts.Replica != nil:
		me, err := h.owner()
		next.Name = me.Name
		return next, err
	case info.Owner.Fence == 0:
		return reprise.Owner{}, nil
	}
	return next, nil
}

// claim takes the stream over from the name that this replica had before its restart, by an event without a meaning:
// output of no bytes. What the server before may have sent just before it died is in front of it, or refused.
func (r *Run) claim() error {
	next := r.reader.Next()
	before := r.tail
	r.shifts.move(next, before+1)
	if err := r.shifts.save(r.remote.Dir); err != nil {
		return err
	}
	if err := r.append([]reprise.Event{{Type: Stdout, Format: reprise.FormatBytes}}); err != nil {
		return err
	}
	if r.tail != before+1 {
		r.reader.Close()
		r.reader = supervisor.NewReader(r.remote.Dir, r.shifts.next(r.tail))
	}
	return nil
}

// countAgain determines how much output is in the stream.
func (r *Run) countAgain(ctx context.Context) error {
	if totals, ok := r.before(ctx); ok {
		r.bytes = totals
		return nil
	}
	counted, err := r.countKept(ctx, r.tail)
	r.shown.StartedAt = counted.started
	return err
}

// before returns the totals of the output in all frames before the next one; ok is false if the spool does not contain
// them.
func (r *Run) before(ctx context.Context) (totals Bytes, ok bool) {
	if r.shifts.Cut {
		return totals, false
	}
	peek := supervisor.NewReader(r.remote.Dir, r.reader.Next())
	defer peek.Close()
	news, err := r.remote.Status(ctx)
	switch {
	case err == nil && news.Tail < r.reader.Next():
		return news.Totals, true
	case err == nil:
		b, err := peek.Read(r.reader.Next(), 1)
		if err == nil && len(b.Frames) == 1 {
			return b.Frames[0].Before, true
		}
		return totals, false
	}
	b, err := peek.Read(supervisor.Unbounded, 1)
	switch {
	case err != nil:
		return totals, false
	case len(b.Frames) > 0:
		return b.Frames[0].Before, b.Skipped == 0
	}
	e, ended, err := supervisor.ReadEnding(r.remote.Dir)
	whole := ended && err == nil && e.Tail == r.reader.Next()-1 // otherwise the spool has lost its end
	return e.Bytes, whole
}

// What a lost run says of itself.
const (
	supervisorKilled = "its supervisor was killed"
	machineRestarted = "the machine or the container was restarted"
	neverStarted     = "the server died before the command was started"
)

// buried gives a run its end whose supervisor is dead, and reports whether the run is over. err is why the supervisor
// could not be reached. It is called again if it returns false.
func (r *Run) buried(err error) bool {
	lock, lockErr := supervisor.Lock(r.remote.Dir)
	switch {
	case lockErr == nil:
		defer lock.Close()
	case errors.Is(lockErr, fs.ErrNotExist): // no server can find it; the supervisor notices and ends
		r.endLost(supervisor.SpoolGone, true)
		return true
	default:
		r.Logger().Warn("a supervisor cannot be reached", "error", err)
		return false
	}
	e, ended, err := supervisor.ReadEnding(r.remote.Dir)
	if err == nil {
		err = r.takeRest(e.Tail)
	}
	if err != nil {
		if r.host.ctx.Err() != nil {
			r.leave()
			return true
		}
		_, newer := errors.AsType[*supervisor.VersionError](err)
		final := newer || r.IsStopping() // a cancelled run does not wait for a disk that may never be read again
		r.Logger().Error("a spool cannot be read", "final", final, "error", err)
		if !final {
			return false
		}
		r.cut = true
	}
	kept := false
	if ended {
		r.cut = r.cut || r.bytesFrom == 0 && r.bytes != e.Bytes // an older supervisor does not tell its tail
		kept = r.endWith(nil, ending{Ending: e.Ending})
	} else {
		kept = r.endUntold()
	}
	if kept {
		_ = os.RemoveAll(r.remote.Dir)
		removeFolder(r.folder)
	}
	return true
}

// takeRest appends the rest of the spool of a dead supervisor, whose last frame was tail. If that is 0, which is
// unknown, it is the last readable frame.
func (r *Run) takeRest(tail uint64) error {
	if tail == 0 {
		tail = supervisor.Unbounded
	}
	for {
		at := r.reader.Next()
		f, err := r.readFrames(tail)
		if err == nil {
			err = r.appendFrames(f.events)
		}
		if err != nil || r.reader.Next() == at {
			return err
		}
	}
}

// endUntold ends a run as lost whose dead supervisor has left no end, after the processes of its command.
func (r *Run) endUntold() (kept bool) {
	why, left := machineRestarted, false
	if loadBrief(r.remote.Dir).Machine == thisMachine() {
		why, left = supervisorKilled, !supervisor.KillLeft(r.remote.Dir)
		command.KillMarked([]string{markOf(r.Epoch())})
		if trace := supervisor.Crash(r.remote.Dir); trace != "" {
			r.Logger().Error("a supervisor has crashed", "trace", command.Shorten(trace, shownBytes))
		}
		if !supervisor.HasBegun(r.remote.Dir) {
			why, left = neverStarted, false
		}
	}
	return r.endLost(why, left)
}

// endLost ends the run as lost, with what its events tell.
func (r *Run) endLost(why string, processesLeft bool) (kept bool) {
	e := ending{Ending: command.Ending{
		Outcome: Lost, Error: why, ProcessesLeft: processesLeft, Isolation: r.state().Isolation,
	}}
	if r.reader.Next() > 1 { // otherwise nothing is known of it
		if counted, err := count(r.host.ctx, r.stream, r.tail); err == nil {
			counted.date(&e.Ending)
		}
		e.OutputTruncated = true // what was in its memory
	}
	return r.endWith(nil, e)
}

// discard ends the command of a supervisor whose execution no longer exists. It tries until that is done or the Host
// goes.
func (h *Host) discard(m *supervisor.Remote) {
	folder := loadBrief(m.Dir).Folder
	pauses := backoff.Backoff{First: firstRetry, Most: discardRetry}
	if pauses.Repeat(h.ctx, func() bool { return h.tryDiscard(m) }) == nil {
		removeFolder(folder)
	}
}

// discardRetry is the longest pause between two tries of discard.
const discardRetry = 10 * time.Second

// tryDiscard is one try of discard. It returns true once the directory is gone.
func (h *Host) tryDiscard(m *supervisor.Remote) bool {
	dir := m.Dir
	lock, err := supervisor.LockDead(dir)
	switch {
	case err == nil:
		defer lock.Close()
		supervisor.KillLeft(dir)
		command.KillMarked([]string{markOf(reprise.Epoch(filepath.Base(dir)))})
		return os.RemoveAll(dir) == nil
	case errors.Is(err, fs.ErrNotExist):
		return os.RemoveAll(dir) == nil
	}
	v := command.Verdict{Outcome: Cancelled, Reason: "it was removed", Now: true}
	if err := m.End(h.ctx, v); err != nil && h.ctx.Err() == nil {
		h.opts.Logger.Warn("an unused supervisor cannot be reached", "directory", dir, "error", err)
	}
	return false // the lock shows it in the next try
}
