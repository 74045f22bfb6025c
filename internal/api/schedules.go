package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/schedule"
	"reprise/internal/web"
)

// schedulesPath is the prefix of the paths that need Options.Schedules.
const schedulesPath = "/v1/schedules"

func (s *Server) scheduleRoutes(m *web.Mux) {
	m.Handle("GET", schedulesPath, identity.ScopeRun, nil, s.listSchedules)
	m.Handle("POST", schedulesPath, identity.ScopeRun, nil, s.addSchedule)
	m.Handle("GET", schedulesPath+"/{id}", identity.ScopeRun, nil, s.showSchedule)
	m.Handle("DELETE", schedulesPath+"/{id}", identity.ScopeRun, nil, s.removeSchedule)
	m.Handle("POST", schedulesPath+"/{id}/disable", identity.ScopeRun, nil, s.disableSchedule)
	m.Handle("POST", schedulesPath+"/{id}/enable", identity.ScopeRun, nil, s.enableSchedule)
}

// scheduleBody is how a schedule is shown.
type scheduleBody struct {
	ID        string            `json:"id"`
	Cron      string            `json:"cron"`
	Zone      string            `json:"zone"`
	Overlap   string            `json:"overlap"`
	Missed    string            `json:"missed"`
	Execution scheduledBody     `json:"execution"`
	Principal string            `json:"principal"`
	Created   execution.Time    `json:"created"`
	Next      *execution.Time   `json:"next"`
	Disabled  *scheduleDisabled `json:"disabled"`
	// Slots are there where one schedule is shown.
	Slots []slotBody `json:"slots,omitempty"`
	Links keyLinks   `json:"links"`
}

// scheduledBody is the public part of a start, without code, stdin and the values of variables.
type scheduledBody struct {
	Argv     []string           `json:"argv,omitempty"`
	Command  string             `json:"command,omitempty"`
	Language string             `json:"language,omitempty"`
	Session  string             `json:"session,omitempty"`
	Cwd      string             `json:"cwd,omitempty"`
	EnvNames []string           `json:"env_names,omitempty"`
	Labels   map[string]string  `json:"labels,omitempty"`
	Timeout  execution.Duration `json:"timeout,omitzero"`
}

type scheduleDisabled struct {
	Since  execution.Time `json:"since"`
	Reason string         `json:"reason"`
}

type slotBody struct {
	At        execution.Time   `json:"at"`
	Outcome   schedule.Outcome `json:"outcome"`
	Execution string           `json:"execution,omitempty"`
	Error     string           `json:"error,omitempty"`
	Count     int              `json:"count,omitempty"`
}

// The values of "overlap" and "missed".
const (
	overlapSkip, overlapAllow = "skip", "allow"
	missedSkip, missedOnce    = "skip", "once"
)

func schedulePath(id string) string { return schedulesPath + "/" + url.PathEscape(id) }

func showOneSchedule(s *schedule.Schedule) scheduleBody {
	q := &s.Execution
	body := scheduleBody{
		ID: s.ID, Cron: s.Cron, Zone: s.Zone, Overlap: overlapSkip, Missed: missedSkip, Principal: s.Principal,
		Created: timeOf(s.Created), Links: keyLinks{schedulePath(s.ID)},
		Execution: scheduledBody{
			Argv: q.Argv, Command: q.Command, Language: q.Language, Session: q.Session, Cwd: q.Cwd,
			EnvNames: slices.Sorted(maps.Keys(q.Env)), Labels: q.Labels, Timeout: q.Timeout,
		},
	}
	if s.Overlap {
		body.Overlap = overlapAllow
	}
	if s.Once {
		body.Missed = missedOnce
	}
	if next := s.Next(time.Now()); !next.IsZero() {
		body.Next = timeIf(&next)
	}
	if s.Disabled != nil {
		body.Disabled = &scheduleDisabled{timeOf(s.Disabled.Since), s.Disabled.Reason}
	}
	return body
}

// scheduleOf finds the schedule in the path. For a sender that may not run commands in its session, the schedule does
// not exist.
func (s *Server) scheduleOf(x *web.Exchange) (schedule.Schedule, error) {
	one, err := s.opts.Schedules.Find(x.Who.Tenant, x.R.PathValue("id"))
	if err != nil || !x.Who.MayOn(identity.ScopeRun, one.Execution.Session) {
		return one, fmt.Errorf("%w: there is no schedule with this id", reprise.ErrNotFound)
	}
	return one, nil
}

func (s *Server) listSchedules(x *web.Exchange) error {
	shown := []scheduleBody{}
	for _, one := range s.opts.Schedules.List(x.Who.Tenant) {
		if x.Who.MayOn(identity.ScopeRun, one.Execution.Session) {
			shown = append(shown, showOneSchedule(&one))
		}
	}
	return x.Answer(http.StatusOK, struct {
		Schedules []scheduleBody `json:"schedules"`
	}{shown})
}

func (s *Server) showSchedule(x *web.Exchange) error {
	one, err := s.scheduleOf(x)
	if err != nil {
		return err
	}
	history, err := s.opts.Schedules.History(x.R.Context(), &one)
	if err != nil {
		return err
	}
	body := showOneSchedule(&one)
	for _, slot := range history {
		body.Slots = append(body.Slots, slotBody{timeOf(slot.At), slot.Outcome, slot.Execution, slot.Error, slot.Count})
	}
	return x.Answer(http.StatusOK, body)
}

func (s *Server) addSchedule(x *web.Exchange) error {
	var body struct {
		Cron      string            `json:"cron"`
		Zone      string            `json:"zone"`
		Overlap   string            `json:"overlap"`
		Missed    string            `json:"missed"`
		Execution execution.Request `json:"execution"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	switch {
	case body.Overlap != "" && body.Overlap != overlapSkip && body.Overlap != overlapAllow:
		return web.Unprocessable("overlap", `it is "skip" or "allow"`)
	case body.Missed != "" && body.Missed != missedSkip && body.Missed != missedOnce:
		return web.Unprocessable("missed", `it is "skip" or "once"`)
	}
	if err := x.MayMake(identity.ScopeRun, body.Execution.Session, "session"); err != nil {
		return err
	}
	if err := mayBe(x, &body.Execution); err != nil {
		return err
	}
	made, err := s.opts.Schedules.Add(x.R.Context(), schedule.Request{
		Tenant: x.Who.Tenant, Principal: x.Who.Name, Cron: body.Cron, Zone: body.Zone,
		Overlap: body.Overlap == overlapAllow, Once: body.Missed == missedOnce, Execution: body.Execution,
	})
	if err != nil {
		return err
	}
	x.Made(schedulePath(made.ID))
	x.W.Header().Set("Location", schedulePath(made.ID))
	return x.Answer(http.StatusCreated, showOneSchedule(&made))
}

func (s *Server) removeSchedule(x *web.Exchange) error {
	one, err := s.scheduleOf(x)
	if err == nil {
		err = s.opts.Schedules.Remove(x.R.Context(), one.Tenant, one.ID)
	}
	if err != nil {
		return err
	}
	return x.Done()
}

func (s *Server) disableSchedule(x *web.Exchange) error {
	one, err := s.scheduleOf(x)
	if err == nil {
		one, err = s.opts.Schedules.Disable(x.R.Context(), one.Tenant, one.ID, "by "+x.Who.Name)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showOneSchedule(&one))
}

func (s *Server) enableSchedule(x *web.Exchange) error {
	one, err := s.scheduleOf(x)
	if err == nil {
		one, err = s.opts.Schedules.Enable(x.R.Context(), one.Tenant, one.ID, x.Who.Name)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showOneSchedule(&one))
}
