package schedule

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones are the same on every machine, also without zone files

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/registry"
)

// Schedule is a schedule of executions.
type Schedule struct {
	ID     string         `json:"id"`
	Tenant reprise.Tenant `json:"tenant"`
	Cron   string         `json:"cron"`
	// Zone is the name of a time zone, such as "Europe/Berlin" or "UTC".
	Zone string `json:"zone"`
	// Overlap permits an execution to begin while an earlier one runs. Once starts the newest missed slot late.
	Overlap bool `json:"overlap,omitempty"`
	Once    bool `json:"once,omitempty"`
	// Execution is the request to start.
	Execution execution.Request `json:"execution"`
	// Principal is the maker of the schedule, whose permissions limit what it starts.
	Principal string    `json:"principal"`
	Created   time.Time `json:"created"`
	// Disabled says why and since when nothing is started. It is nil for a schedule that works.
	Disabled *Disabled `json:"disabled,omitempty"`
}

// Disabled is the reason for which, and the time since when, a schedule starts nothing.
type Disabled struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Request describes a schedule to make.
type Request struct {
	Tenant    reprise.Tenant
	Principal string
	Cron      string
	Zone      string // "" is UTC
	Overlap   bool
	Once      bool
	Execution execution.Request
}

func invalid(field, format string, args ...any) error {
	return &execution.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// validate checks a request and fills in its defaults.
func (q *Request) validate() error {
	if q.Zone == "" {
		q.Zone = "UTC"
	}
	if _, err := ParseCron(q.Cron); err != nil {
		return invalid("cron", "%v", err)
	}
	if _, err := time.LoadLocation(q.Zone); err != nil || q.Zone == "Local" {
		return invalid("zone", "%.64q is no time zone", q.Zone)
	}
	if q.Execution.ID != "" || q.Execution.Key != "" || q.Execution.IdempotencyKey != "" {
		return invalid("execution.id", "the id of an execution is made of the schedule and the slot")
	}
	if q.Execution.StdinOpen || q.Execution.KillOnDisconnect {
		return invalid("execution", "nobody is there to write to it or to follow it")
	}
	return q.Execution.Validate()
}

// Options are the settings of Schedules. The zero value of a field that is not required means its default.
type Options struct {
	// Start starts an execution for a principal, the maker of the schedule, or finds the one that the same request has
	// started. It is required.
	Start func(ctx context.Context, who *identity.Principal, q execution.Request) (execution.Execution, bool, error)
	// Show finds an execution. It is required.
	Show func(ctx context.Context, tenant reprise.Tenant, id string) (execution.Execution, error)
	// Principal returns the current permissions of a principal. It is required.
	Principal func(ctx context.Context, tenant reprise.Tenant, name string) (identity.Principal, error)
	// MaxPerTenant bounds the schedules of a tenant. Default: 100.
	MaxPerTenant int
	// Passed is called with the outcome of each slot. It may be nil.
	Passed func(s *Schedule, slot Slot)
	// Disabled is called when a schedule is disabled because it can start nothing any more. It may be nil.
	Disabled func(s *Schedule, reason string)
	// Logger receives errors. Default: silent.
	Logger *slog.Logger
}

// Schedules are the schedules of all tenants. They are safe for concurrent use.
type Schedules struct {
	log   *reprise.Log
	opts  Options
	known *registry.Registry[Schedule]
}

// registryKey names the stream of all schedules.
var registryKey = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "schedules"}

// Open reads the schedules in log. ctx bounds the reading.
func Open(ctx context.Context, log *reprise.Log, opts *Options) (*Schedules, error) {
	s := &Schedules{log: log, opts: *opts}
	if s.opts.MaxPerTenant == 0 {
		s.opts.MaxPerTenant = 100
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if s.opts.Passed == nil {
		s.opts.Passed = func(*Schedule, Slot) {}
	}
	if s.opts.Disabled == nil {
		s.opts.Disabled = func(*Schedule, string) {}
	}
	var err error
	s.known, err = registry.Open[Schedule](ctx, log, registryKey, &registry.Options{Logger: s.opts.Logger})
	return s, err
}

// Close stops following changes. Run must have returned before.
func (s *Schedules) Close() { s.known.Close() }

// Any waits until there is a schedule, or returns the cause of ctx.
func (s *Schedules) Any(ctx context.Context) error { return s.known.Any(ctx) }

// Add creates a schedule, which starts with its next slot. The error is an *execution.FieldError, reprise.ErrQuota if
// the tenant has reached its limit, or comes from the Log.
func (s *Schedules) Add(ctx context.Context, q Request) (Schedule, error) {
	if err := q.validate(); err != nil {
		return Schedule{}, err
	}
	if list := s.List(q.Tenant); len(list) >= s.opts.MaxPerTenant {
		return Schedule{}, fmt.Errorf("%w: the tenant has %d schedules", reprise.ErrQuota, len(list))
	}
	made := Schedule{
		ID: strings.ToLower(rand.Text()), Tenant: q.Tenant, Cron: q.Cron, Zone: q.Zone,
		Overlap: q.Overlap, Once: q.Once,
		Execution: q.Execution, Principal: q.Principal, Created: time.Now().UTC().Truncate(time.Millisecond),
	}
	return made, s.known.Set(ctx, made.ID, 0, &made)
}

// List returns the schedules of a tenant, newest first.
func (s *Schedules) List(tenant reprise.Tenant) []Schedule {
	all, _ := s.known.All()
	list := []Schedule{}
	for _, e := range all {
		if e.Value.Tenant == tenant {
			list = append(list, e.Value)
		}
	}
	slices.SortFunc(list, func(a, b Schedule) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return list
}

func (s *Schedules) find(tenant reprise.Tenant, id string) (Schedule, uint64, error) {
	e, err := s.known.Find(id)
	if err == nil && e.Value.Tenant != tenant {
		err = fmt.Errorf("%w: there is no schedule with this id", reprise.ErrNotFound)
	}
	return e.Value, e.Version, err
}

// Find returns a schedule of a tenant. The error is reprise.ErrNotFound.
func (s *Schedules) Find(tenant reprise.Tenant, id string) (Schedule, error) {
	found, _, err := s.find(tenant, id)
	return found, err
}

// Remove removes a schedule of a tenant. Executions that it has started stay. The error is reprise.ErrNotFound,
// reprise.ErrConflict if it was changed at the same time, or comes from the Log.
func (s *Schedules) Remove(ctx context.Context, tenant reprise.Tenant, id string) error {
	found, version, err := s.find(tenant, id)
	if err == nil {
		err = s.known.Set(ctx, id, version, nil)
	}
	if err == nil {
		err = s.log.Remove(ctx, found.historyKey())
	}
	return err
}

// Disable stops a schedule of a tenant. Enable lets it continue in the name of a principal, with the next slot. It
// returns the same errors as Remove.
func (s *Schedules) Disable(ctx context.Context, tenant reprise.Tenant, id, reason string) (Schedule, error) {
	found, version, err := s.find(tenant, id)
	if err != nil || found.Disabled != nil {
		return found, err
	}
	found.Disabled = &Disabled{Since: time.Now().UTC().Truncate(time.Millisecond), Reason: reason}
	return found, s.known.Set(ctx, id, version, &found)
}

// Enable is described at Disable.
func (s *Schedules) Enable(ctx context.Context, tenant reprise.Tenant, id, principal string) (Schedule, error) {
	found, version, err := s.find(tenant, id)
	if err != nil || found.Disabled == nil {
		return found, err
	}
	found.Disabled, found.Principal = nil, principal
	found.Created = time.Now().UTC().Truncate(time.Millisecond) // slots before this are not missed
	return found, s.known.Set(ctx, id, version, &found)
}

// Next returns the next slot, the zero time for a disabled schedule.
func (s *Schedule) Next(after time.Time) time.Time {
	if s.Disabled != nil {
		return time.Time{}
	}
	return s.next(after)
}

// next is Next for enabled and disabled schedules.
func (s *Schedule) next(after time.Time) time.Time {
	cron, err := ParseCron(s.Cron)
	zone, zerr := time.LoadLocation(s.Zone)
	if err != nil || zerr != nil { // a newer version accepted it
		return time.Time{}
	}
	return cron.Next(after, zone)
}
