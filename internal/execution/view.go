package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"reprise"
	"reprise/internal/memo"
	"reprise/internal/wire"
)

// ErrNotFound is reprise.ErrNotFound for an execution.
var ErrNotFound = fmt.Errorf("%w: there is no execution with this id", reprise.ErrNotFound)

// Show returns the execution, also one that is only remembered; see Execution.Expired. The error is ErrNotFound, or
// reprise.ErrExpired if its stream has expired and it is not remembered.
//
// If another replica runs the execution, Bytes, Started and Isolation are as reported by that replica, and zero if it
// does not answer within 2 s.
func (h *Host) Show(ctx context.Context, tenant reprise.Tenant, id string) (Execution, error) {
	s, err := h.keptStream(ctx, tenant, id)
	if err != nil {
		return h.showExpired(ctx, tenant, id, err)
	}
	return h.show(ctx, s)
}

// Stream returns the stream of the execution. The error is ErrNotFound, or reprise.ErrExpired if it has expired.
func (h *Host) Stream(ctx context.Context, tenant reprise.Tenant, id string) (*reprise.Stream, error) {
	s, err := h.keptStream(ctx, tenant, id)
	if errors.Is(err, reprise.ErrNotFound) {
		if _, unknown := h.showExpired(ctx, tenant, id, err); unknown == nil {
			err = errOutputExpired
		}
	}
	return s, err
}

// streamInfo is Stream, with what is known of it.
func (h *Host) streamInfo(ctx context.Context, tenant reprise.Tenant, id string) (
	s *reprise.Stream, info reprise.StreamInfo, err error,
) {
	if s, err = h.Stream(ctx, tenant, id); err == nil {
		info, err = s.Info(ctx)
	}
	return s, info, err
}

// errOutputExpired is the error for the output of an execution that is remembered.
var errOutputExpired = fmt.Errorf("%w: the output of the execution", reprise.ErrExpired)

// keptStream is Stream, but does not distinguish all that have expired from those that never were.
func (h *Host) keptStream(ctx context.Context, tenant reprise.Tenant, id string) (*reprise.Stream, error) {
	if err := checkID("id", id); err != nil {
		return nil, ErrNotFound // no execution has such an id
	}
	s, err := h.log.Stream(ctx, keyOf(tenant, id))
	if errors.Is(err, reprise.ErrNotFound) {
		err = ErrNotFound
	}
	return s, err
}

// SessionOf returns the session of an execution, or "" if it has none. It returns the same errors as Show.
func (h *Host) SessionOf(ctx context.Context, tenant reprise.Tenant, id string) (string, error) {
	s, err := h.keptStream(ctx, tenant, id)
	if err != nil {
		x, err := h.showExpired(ctx, tenant, id, err)
		return x.Session, err
	}
	info, err := s.Info(ctx)
	return info.Config.Labels[labelSession], err
}

// show is Show for a stream.
func (h *Host) show(ctx context.Context, s *reprise.Stream) (Execution, error) {
	x, owner, err := h.lookAt(ctx, s)
	if err == nil && owner != "" {
		if p, err := h.progressOf(ctx, owner, s.Key()); err == nil {
			x.show(p[0])
		}
	}
	return x, err
}

// look is Show without asking the replica that runs the execution, which it returns, or "".
func (h *Host) look(ctx context.Context, tenant reprise.Tenant, id string) (x Execution, owner string, err error) {
	s, err := h.Stream(ctx, tenant, id)
	if err != nil {
		return Execution{}, "", err
	}
	return h.lookAt(ctx, s)
}

func (h *Host) lookAt(ctx context.Context, s *reprise.Stream) (x Execution, owner string, err error) {
	r := h.find(s.Key()) // before the info: a run that has gone has an end there
	info, err := s.Info(ctx)
	if err != nil {
		return Execution{}, "", err
	}
	x = h.view(&info, r)
	x.Window = Window{Earliest: s.Cursor(info.Earliest - 1).String(), Tail: s.Cursor(info.Tail).String()}
	if r == nil {
		owner = h.runner(&info)
	}
	if x.Cwd == "" && info.Tail > 0 && info.Earliest <= 1 {
		x.Cwd = h.startedIn(ctx, s)
	}
	return x, owner, nil
}

// startedIn returns the directory in which a command was started whose request has named none, "" if that is not known.
func (h *Host) startedIn(ctx context.Context, s *reprise.Stream) string {
	var started struct {
		Cwd string `json:"cwd"`
	}
	_ = memo.Each(ctx, s, 1, 1, func(e *reprise.Event) { // without a first event, it is not known
		if e.Type == eventStarted {
			_ = json.Unmarshal(e.Data, &started)
		}
	})
	return started.Cwd
}

// view returns the execution whose stream is info and whose run, if it has not ended, is r, without the window.
func (h *Host) view(info *reprise.StreamInfo, r *Run) Execution {
	x := Execution{Driver: info.Config.Labels[labelDriver], tail: info.Tail, size: info.Overhead()}
	x.ID = strings.TrimPrefix(info.Key.Name, Namespace)
	x.Session, x.Labels = info.Config.Labels[labelSession], requestLabels(info.Config.Labels)
	x.Created, x.Status = Time{Time: info.Created}, StatusRunning
	var m meta
	_ = json.Unmarshal(info.Config.Meta, &m) // we wrote it
	x.Argv, x.Command, x.Language, x.Cwd, x.EnvNames = m.Argv, m.Command, m.Language, m.Cwd, m.EnvNames
	x.TTY, x.Timeout, x.Key, x.Interpreter = m.TTY, m.Timeout, m.Key, m.Interpreter
	switch {
	case info.End != nil:
		x.end(info.End)
	case r != nil:
		x.Status, x.Cwd = h.queue.status(r), cmp.Or(x.Cwd, r.dir)
		x.show(r.progress())
	case info.Tail == 0: // on another replica, which has not started it
		x.Status = StatusQueued
	}
	return x
}

// requestLabels are the labels as the request gave them.
func requestLabels(labels map[string]string) map[string]string {
	own := make(map[string]string)
	for k, v := range labels {
		if name, ok := strings.CutPrefix(k, labelPrefix); ok {
			own[name] = v
		}
	}
	return own
}

// end fills in the data of the end event.
func (x *Execution) end(end *reprise.End) {
	var e ending
	_ = json.Unmarshal(end.Data, &e) // we wrote it
	x.Status = StatusEnded
	x.Outcome, x.ExitCode, x.Signal = Outcome(end.Outcome), e.ExitCode, e.Signal
	x.Error, x.Limit, x.OutputTruncated, x.ProcessesLeft = e.Error, e.Limit, e.OutputTruncated, e.ProcessesLeft
	x.KilledProcesses, x.KilledCommands = e.KilledProcesses, e.KilledCommands
	x.Usage, x.Bytes, x.Isolation = e.Usage, e.Bytes, e.Isolation
	x.Started, x.Ended = e.Started, Time{Time: end.Time}
	x.DurationMS = &e.DurationMS
	x.Artifacts, x.ArtifactNotes = e.Artifacts, e.ArtifactNotes
}

// progress is the progress of a run that has not ended.
type progress struct {
	// Queued: it waits for its turn.
	Queued bool `json:"queued,omitempty"`
	// WaitingSince is when output began to wait until there is room for it, zero if none does.
	WaitingSince Time `json:"waiting_since,omitzero"`
	// Started is zero if the process has not been started.
	Started   Time       `json:"started,omitzero"`
	Isolation *Isolation `json:"isolation,omitempty"`
	// Resized is the latest size of the terminal, or nil if it still has the size of the request.
	Resized *TTY `json:"resized,omitempty"`
	// Driven is the progress of an interpreter.
	Driven *Driven `json:"driven,omitempty"`
	counted
	// Coming is the state after the append under way, whose events readers may have seen.
	Coming *counted `json:"coming,omitempty"`
}

// counted is the output up to an event.
type counted struct {
	Bytes Bytes  `json:"bytes"`
	Tail  uint64 `json:"tail"`
}

// at returns the counts at a time when the stream had this tail.
func (p *progress) at(tail uint64) counted {
	if p.Coming != nil && tail >= p.Coming.Tail {
		return *p.Coming
	}
	return p.counted
}

func (r *Run) progress() *progress {
	var driven *Driven
	if r.driver != nil {
		driven = r.driver.Progress()
	}
	queued := r.host.queue.status(r) == StatusQueued
	state := r.state()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &progress{
		Queued: queued, counted: counted{r.bytes, r.tail}, Coming: r.coming, Resized: (*TTY)(state.Resized),
		Driven: driven, WaitingSince: wire.At(r.waitingSince()),
	}
	if !state.StartedAt.IsZero() {
		p.Started, p.Isolation = wire.At(state.StartedAt), state.Isolation
	}
	return p
}

// show fills in the progress of the run; p is nil if it is unknown.
func (x *Execution) show(p *progress) {
	if p != nil {
		x.Bytes, x.Started, x.Isolation, x.Driven = p.at(x.tail).Bytes, p.Started, p.Isolation, p.Driven
		if !p.WaitingSince.IsZero() {
			x.Waiting, x.WaitingSince = WaitingStorage, p.WaitingSince
		}
		if p.Queued && x.Status == StatusRunning {
			x.Status = StatusQueued
		}
		if p.Resized != nil {
			x.TTY = p.Resized
		}
	}
}
