package execution

import (
	"context"
	"encoding/json"
	"strings"

	"reprise"
)

// Show returns the execution. The error is reprise.ErrNotFound, or
// reprise.ErrExpired for one that was swept.
func (h *Host) Show(ctx context.Context, tenant reprise.Tenant, id string) (Execution, error) {
	s, err := h.Stream(ctx, tenant, id)
	if err != nil {
		return Execution{}, err
	}
	return h.show(ctx, s)
}

// Stream returns the stream of the execution. The errors are those of Show.
func (h *Host) Stream(ctx context.Context, tenant reprise.Tenant, id string) (*reprise.Stream, error) {
	if err := checkID("id", id); err != nil {
		return nil, reprise.ErrNotFound // no execution has such an id
	}
	return h.log.Stream(ctx, keyOf(tenant, id))
}

func (h *Host) show(ctx context.Context, s *reprise.Stream) (Execution, error) {
	r := h.find(s.Key()) // before the info: a run that has gone has an end there
	info, err := s.Info(ctx)
	if err != nil {
		return Execution{}, err
	}
	x := h.view(&info, r)
	x.Window = Window{Earliest: s.Cursor(info.Earliest - 1).String(), Tail: s.Cursor(info.Tail).String()}
	return x, nil
}

// view is the execution whose stream is info and whose run, if it has not ended, is
// r, but for the window.
func (h *Host) view(info *reprise.StreamInfo, r *run) Execution {
	x := Execution{
		ID:      strings.TrimPrefix(info.Key.Name, namespace),
		Session: info.Config.Labels[labelSession],
		Created: Time{info.Created},
		Labels:  requestLabels(info.Config.Labels),
		Status:  StatusRunning,
	}
	var m meta
	_ = json.Unmarshal(info.Config.Meta, &m) // we wrote it
	x.Argv, x.Command, x.Language, x.Cwd, x.EnvNames = m.Argv, m.Command, m.Language, m.Cwd, m.EnvNames
	x.TTY, x.Timeout = m.TTY, m.Timeout
	switch {
	case info.End != nil:
		x.end(info.End)
	case r != nil:
		x.Status = h.queue.status(r)
		r.progress(&x)
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

// end fills in what the end event tells.
func (x *Execution) end(end *reprise.End) {
	var e ending
	_ = json.Unmarshal(end.Data, &e) // we wrote it
	x.Status = StatusEnded
	outcome := Outcome(end.Outcome)
	x.Outcome, x.ExitCode, x.Signal = &outcome, e.ExitCode, e.Signal
	x.Error, x.Limit, x.OutputTruncated = e.Error, e.Limit, e.OutputTruncated
	x.Usage, x.Bytes, x.Isolation = e.Usage, e.Bytes, e.Isolation
	x.Started, x.Ended = e.Started, &Time{end.Time}
	x.DurationMS = &e.DurationMS
}

// progress fills in how far the run is.
func (r *run) progress(x *Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Bytes = r.bytes
	if r.child != nil {
		x.Started = ms(r.child.started)
		x.Isolation = r.isolated
	}
}
