package schedule

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// schedulesPath is the prefix of the paths of schedules.
const schedulesPath = "/v1/schedules"

// API shows and changes schedules over HTTP.
type API struct{ Schedules *Schedules }

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	m.Handle("GET", schedulesPath, identity.ScopeRun, nil, a.list)
	m.Handle("POST", schedulesPath, identity.ScopeRun, nil, a.add)
	m.Handle("GET", schedulesPath+"/{id}", identity.ScopeRun, nil, a.show)
	m.Handle("DELETE", schedulesPath+"/{id}", identity.ScopeRun, nil, a.remove)
	m.Handle("POST", schedulesPath+"/{id}/disable", identity.ScopeRun, nil, a.disable)
	m.Handle("POST", schedulesPath+"/{id}/enable", identity.ScopeRun, nil, a.enable)
}

// scheduleBody is how a schedule is shown.
type scheduleBody struct {
	client.Schedule
	Links wire.Links `json:"links"`
}

// The values of "overlap" and "missed".
const (
	overlapSkip, overlapAllow = "skip", "allow"
	missedSkip, missedOnce    = "skip", "once"
)

func schedulePath(id string) string { return schedulesPath + "/" + url.PathEscape(id) }

func bodyOf(s *Schedule) scheduleBody {
	body := scheduleBody{Links: wire.Links{Self: schedulePath(s.ID)}, Schedule: client.Schedule{
		ID: s.ID, Cron: s.Cron, Zone: s.Zone, Overlap: overlapSkip, Missed: missedSkip, Principal: s.Principal,
		Created: wire.At(s.Created),
	}}
	x, q := &body.Execution, &s.Execution
	x.Argv, x.Command, x.Language, x.Session, x.Cwd = q.Argv, q.Command, q.Language, q.Session, q.Cwd
	x.EnvNames, x.Labels, x.Timeout = slices.Sorted(maps.Keys(q.Env)), q.Labels, q.Timeout
	if s.Overlap {
		body.Overlap = overlapAllow
	}
	if s.Once {
		body.Missed = missedOnce
	}
	if next := s.Next(time.Now()); !next.IsZero() {
		body.Next = wire.Given(&next)
	}
	if s.Disabled != nil {
		body.Disabled = &client.Disabled{Since: wire.At(s.Disabled.Since), Reason: s.Disabled.Reason}
	}
	return body
}

// find finds the schedule in the path. For a sender that may not run commands in its session, the schedule does
// not exist.
func (a API) find(x *web.Exchange) (Schedule, error) {
	one, err := a.Schedules.Find(x.Who.Tenant, x.R.PathValue("id"))
	if err != nil || !x.Who.MayOn(identity.ScopeRun, one.Execution.Session) {
		return one, fmt.Errorf("%w: there is no schedule with this id", reprise.ErrNotFound)
	}
	return one, nil
}

func (a API) list(x *web.Exchange) error {
	shown := []scheduleBody{}
	for _, one := range a.Schedules.List(x.Who.Tenant) {
		if x.Who.MayOn(identity.ScopeRun, one.Execution.Session) {
			shown = append(shown, bodyOf(&one))
		}
	}
	return x.Answer(http.StatusOK, struct {
		Schedules []scheduleBody `json:"schedules"`
	}{shown})
}

func (a API) show(x *web.Exchange) error {
	one, err := a.find(x)
	if err != nil {
		return err
	}
	history, err := a.Schedules.History(x.R.Context(), &one)
	if err != nil {
		return err
	}
	body := bodyOf(&one)
	for _, slot := range history {
		body.Slots = append(body.Slots, client.ScheduleSlot{
			At: wire.At(slot.At), Outcome: string(slot.Outcome), Execution: slot.Execution, Error: slot.Error,
			Count: slot.Count,
		})
	}
	return x.Answer(http.StatusOK, body)
}

func (a API) add(x *web.Exchange) error {
	var body client.ScheduleRequest
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
	if body.Execution.User != "" { // of another user, as for any start
		if err := x.Needs(identity.ScopeAdmin); err != nil {
			return err
		}
	}
	made, err := a.Schedules.Add(x.R.Context(), Request{
		Tenant: x.Who.Tenant, Principal: x.Who.Name, Cron: body.Cron, Zone: body.Zone,
		Overlap: body.Overlap == overlapAllow, Once: body.Missed == missedOnce,
		Execution: execution.Request(body.Execution),
	})
	if err != nil {
		return err
	}
	x.Made(schedulePath(made.ID))
	x.W.Header().Set("Location", schedulePath(made.ID))
	return x.Answer(http.StatusCreated, bodyOf(&made))
}

func (a API) remove(x *web.Exchange) error {
	one, err := a.find(x)
	if err == nil {
		err = a.Schedules.Remove(x.R.Context(), one.Tenant, one.ID)
	}
	if err != nil {
		return err
	}
	return x.Done()
}

func (a API) disable(x *web.Exchange) error {
	one, err := a.find(x)
	if err == nil {
		one, err = a.Schedules.Disable(x.R.Context(), one.Tenant, one.ID, "by "+x.Who.Name)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, bodyOf(&one))
}

func (a API) enable(x *web.Exchange) error {
	one, err := a.find(x)
	if err == nil {
		one, err = a.Schedules.Enable(x.R.Context(), one.Tenant, one.ID, x.Who.Name)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, bodyOf(&one))
}
