package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/audit"
	"reprise/internal/backoff"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/schedule"
	"reprise/internal/webhook"
	"reprise/operation"
)

// dutyFlags are those of what one replica does for all.
type dutyFlags struct {
	WebhookAllow  []string      `placeholder:"NETWORK" help:"Network to which webhooks may be sent, in addition to public addresses, for example 10.0.0.0/8; http:// is allowed only for these. May be repeated."`
	WebhookGiveUp time.Duration `placeholder:"DURATION" help:"How long the receiver of a webhook may fail before the webhook is disabled. Default: 72h."`
}

// allowed are the networks of --webhook-allow.
func (c *dutyFlags) allowed() ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range c.WebhookAllow {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			addr, aerr := netip.ParseAddr(text)
			if aerr != nil {
				return nil, usage("--webhook-allow %s: it is neither an address nor a network such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// duties are what one replica does for all: it is chosen by an operation for each, which another goes on with when it
// leaves or dies.
type duties struct {
	runner *operation.Runner
	logger *slog.Logger
	stop   context.CancelFunc
	tasks  sync.WaitGroup
}

// openDuties begins with the duties.
func (s *server) openDuties() error {
	runner, err := operation.New(s.log, &operation.Options{Replica: s.member})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.duties = &duties{runner: runner, logger: s.logger, stop: stop}
	s.duties.do(ctx, "webhooks", s.webhooks.Any, s.webhooks.Send)
	s.duties.do(ctx, "schedules", s.schedules.Any, s.schedules.Run)
	return nil
}

// close ends the work here and lets another replica take it up.
func (d *duties) close() error {
	if d == nil {
		return nil
	}
	d.stop()
	err := d.runner.Close()
	d.tasks.Wait()
	return err
}

// dutyPause is the longest pause before a duty is tried again that has failed.
const dutyPause = 5 * time.Second

// do does a duty on one replica at a time. needed waits until there is something to do, so that a server that is not
// asked for it writes nothing. job is given a number that is higher for each that takes the duty over.
func (d *duties) do(ctx context.Context, name string, needed func(context.Context) error,
	job func(ctx context.Context, fence uint64) error,
) {
	key := reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "operation:" + name}
	d.tasks.Go(func() {
		wait := backoff.Backoff{First: 100 * time.Millisecond, Most: dutyPause}
		for needed(ctx) == nil {
			began := time.Now()
			_, err := d.runner.Run(ctx, key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
				return nil, job(ctx, op.Fence())
			})
			if ctx.Err() != nil || errors.Is(err, reprise.ErrClosed) {
				return
			}
			d.logger.Info("a duty changes hands", "duty", name, "error", err)
			if time.Since(began) > time.Minute {
				wait.Reset()
			}
			if wait.Wait(ctx) != nil {
				return
			}
		}
	})
}

// openWebhooks opens the webhooks, which one replica sends.
func (s *server) openWebhooks(ctx context.Context, c *serveCmd, gate *identity.Gate, metrics *api.Metrics) error {
	allow, err := c.allowed()
	if err != nil {
		return err
	}
	events := webhook.NewEvents(metrics.Registry())
	counted := events.Disabled
	events.Disabled = func(hook *webhook.Hook, reason string) {
		counted(hook, reason)
		s.noteDisabled("webhook disabled", hook.Principal, hook.Tenant, "/v1/webhooks/"+hook.ID)
	}
	s.webhooks, err = webhook.Open(ctx, s.log, &webhook.Options{
		Principal: gate.Named, Allow: allow, GiveUp: c.WebhookGiveUp, Events: events, Logger: s.logger,
	})
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	return nil
}

// openSchedules opens the schedules, which one replica runs.
func (s *server) openSchedules(ctx context.Context, gate *identity.Gate, metrics *api.Metrics) (err error) {
	passed := metrics.Registry().Counters("reprise_schedule_slots_total",
		"Slots of schedules, by what became of them.", "outcome")
	s.schedules, err = schedule.Open(ctx, s.log, &schedule.Options{
		Start: s.startScheduled, Show: s.host.Show, Principal: gate.Named, Logger: s.logger,
		Disabled: func(one *schedule.Schedule, _ string) {
			s.noteDisabled("schedule disabled", one.Principal, one.Tenant, "/v1/schedules/"+one.ID)
		},
		Passed: func(_ *schedule.Schedule, slot schedule.Slot) {
			passed.With(string(slot.Outcome)).Add(float64(max(slot.Count, 1)))
		},
	})
	if err != nil {
		return fmt.Errorf("schedules: %w", err)
	}
	return nil
}

// startScheduled starts an execution of a schedule as its maker does: on record and on the maker's account.
func (s *server) startScheduled(ctx context.Context, who *identity.Principal, q execution.Request) (
	execution.Execution, bool, error,
) {
	if s.audit != nil {
		e := audit.Entry{
			Principal: who.Name, Tenant: who.Tenant, Act: "schedule start", Object: "/v1/executions/" + q.ID,
		}
		if err := s.audit.Record(ctx, e); err != nil {
			return execution.Execution{}, false, err
		}
	}
	return s.host.StartFor(ctx, who.Holder(), q)
}

// noteDisabled records that something of a principal works no more.
func (s *server) noteDisabled(act, principal string, tenant reprise.Tenant, object string) {
	if s.audit != nil {
		s.audit.Note(audit.Entry{Principal: principal, Tenant: tenant, Act: act, Object: object})
	}
}

// closeDuties closes the duties and what they are about.
func (s *server) closeDuties() error {
	err := s.duties.close()
	s.duties = nil
	if s.webhooks != nil {
		s.webhooks.Close()
		s.webhooks = nil
	}
	if s.schedules != nil {
		s.schedules.Close()
		s.schedules = nil
	}
	return err
}
