package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// ScheduleRequest describes a schedule to make. It is the body of POST /v1/schedules.
type ScheduleRequest struct {
	// Cron is minute, hour, day of the month, month and day of the week, as in crontab; or "@hourly", "@daily",
	// "@weekly", "@monthly", "@yearly", or "@every" and a duration.
	Cron string `json:"cron"`
	// Zone is a time zone such as "Europe/Berlin"; "" is "UTC".
	Zone string `json:"zone,omitempty"`
	// Overlap is what happens to a slot while an earlier execution runs: "skip", the default, or "allow".
	Overlap string `json:"overlap,omitempty"`
	// Missed is what happens to slots that pass while no server runs: "skip", the default, or "once", which starts the
	// newest one.
	Missed string `json:"missed,omitempty"`
	// Execution is what to start, without ids and keys.
	Execution StartRequest `json:"execution"`
}

// Schedule is a schedule as the server shows it.
type Schedule struct {
	ID      string `json:"id"`
	Cron    string `json:"cron"`
	Zone    string `json:"zone"`
	Overlap string `json:"overlap"`
	Missed  string `json:"missed"`
	// Execution is the request, without code, stdin and the values of variables.
	Execution struct {
		Argv     []string          `json:"argv,omitempty"`
		Command  string            `json:"command,omitempty"`
		Language string            `json:"language,omitempty"`
		Session  string            `json:"session,omitempty"`
		Cwd      string            `json:"cwd,omitempty"`
		EnvNames []string          `json:"env_names,omitempty"`
		Labels   map[string]string `json:"labels,omitempty"`
		Timeout  Duration          `json:"timeout,omitzero"`
	} `json:"execution"`
	// Principal is the owner, whose permissions limit what is started.
	Principal string `json:"principal"`
	Created   Time   `json:"created"`
	// Next is the next slot, nil if there is none.
	Next Time `json:"next"`
	// Disabled is nil while the schedule is enabled.
	Disabled *Disabled `json:"disabled"`
	// Slots are the newest ones. Only Schedules.Show sets them.
	Slots []ScheduleSlot `json:"slots,omitempty"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// ScheduleSlot is a time of a schedule that has passed.
type ScheduleSlot struct {
	At Time `json:"at"`
	// Outcome is "started", "skipped", "missed" or "failed".
	Outcome string `json:"outcome"`
	// Execution is what was started, or what was still running.
	Execution string `json:"execution,omitempty"`
	Error     string `json:"error,omitempty"`
	// Count is the number of missed slots, up to this one.
	Count int `json:"count,omitempty"`
}

// Schedules are the schedules of a tenant.
type Schedules struct{ noun noun }

// Schedules returns the schedules of the tenant of c.
func (c *Client) Schedules() Schedules { return Schedules{noun{c, "schedule"}} }

// List returns the schedules, newest first.
func (s Schedules) List(ctx context.Context) ([]Schedule, error) {
	list, err := answer[struct {
		Schedules []Schedule `json:"schedules"`
	}](ctx, s.noun.client, s.noun.listing())
	return list.Schedules, err
}

// Create makes a schedule. It is not sent again once it may have arrived.
func (s Schedules) Create(ctx context.Context, q ScheduleRequest) (Schedule, error) {
	return create[Schedule](ctx, s.noun, q)
}

// Show returns a schedule with its newest slots.
func (s Schedules) Show(ctx context.Context, id string) (Schedule, error) {
	return ask[Schedule](ctx, s.noun, request{op: "show", method: http.MethodGet}, id, "")
}

// Disable stops a schedule. What it has started continues.
func (s Schedules) Disable(ctx context.Context, id string) (Schedule, error) {
	return ask[Schedule](ctx, s.noun, request{op: "disable", method: http.MethodPost}, id, "/disable")
}

// Enable lets a disabled schedule continue with its next slot. From now on it belongs to the principal of the Client.
func (s Schedules) Enable(ctx context.Context, id string) (Schedule, error) {
	return ask[Schedule](ctx, s.noun, request{op: "enable", method: http.MethodPost}, id, "/enable")
}

// Remove removes a schedule. The error wraps reprise.ErrNotFound if it does not exist. What it has started is kept.
func (s Schedules) Remove(ctx context.Context, id string) error {
	return s.noun.remove(ctx, "remove", id)
}
