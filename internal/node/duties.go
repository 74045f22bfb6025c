package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"reprise"
	"reprise/internal/audit"
	"reprise/internal/backoff"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/schedule"
	"reprise/internal/webhook"
	"reprise/operation"
)

// duties are what one replica does for all: it is chosen by an operation for each, which another goes on with when it
// leaves or dies.
type duties struct {
	runner *operation.Runner
	logger *slog.Logger
	stop   context.CancelFunc
	tasks  sync.WaitGroup
}

// openDuties begins with the duties.
func openDuties(_ context.Context, n *Node) error {
	runner, err := operation.New(n.log, &operation.Options{Replica: n.member})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &duties{runner: runner, logger: n.Logger, stop: stop}
	n.onClose(d.close)
	d.do(ctx, "webhooks", n.webhooks.Any, n.webhooks.Send)
	d.do(ctx, "schedules", n.schedules.Any, n.schedules.Run)
	return nil
}

// close ends the work here and lets another replica take it up.
func (d *duties) close() error {
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
			d.logger.Info("background job moved to another replica", "duty", name, "error", err)
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
func openWebhooks(ctx context.Context, n *Node) (err error) {
	events := webhook.NewEvents(n.metrics.Registry())
	counted := events.Disabled
	events.Disabled = func(hook *webhook.Hook, reason string) {
		counted(hook, reason)
		n.noteDisabled("webhook disabled", hook.Principal, hook.Tenant, "/v1/webhooks/"+hook.ID)
	}
	n.webhooks, err = webhook.Open(ctx, n.log, &webhook.Options{
		Principal: n.gate.Named, Allow: n.WebhookAllow, GiveUp: n.WebhookGiveUp, Events: events, Logger: n.Logger,
	})
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	n.onClose(func() error { n.webhooks.Close(); return nil })
	n.routes = append(n.routes, webhook.API{Hooks: n.webhooks})
	return nil
}

// openSchedules opens the schedules, which one replica runs.
func openSchedules(ctx context.Context, n *Node) (err error) {
	passed := n.metrics.Registry().Counters("reprise_schedule_slots_total",
		"Slots of schedules, by what became of them.", "outcome")
	n.schedules, err = schedule.Open(ctx, n.log, &schedule.Options{
		Start: n.startScheduled, Show: n.host.Show, Principal: n.gate.Named, Logger: n.Logger,
		Disabled: func(one *schedule.Schedule, _ string) {
			n.noteDisabled("schedule disabled", one.Principal, one.Tenant, "/v1/schedules/"+one.ID)
		},
		Passed: func(_ *schedule.Schedule, slot schedule.Slot) {
			passed.With(string(slot.Outcome)).Add(float64(max(slot.Count, 1)))
		},
	})
	if err != nil {
		return fmt.Errorf("schedules: %w", err)
	}
	n.onClose(func() error { n.schedules.Close(); return nil })
	n.routes = append(n.routes, schedule.API{Schedules: n.schedules})
	return nil
}

// startScheduled starts an execution of a schedule as its maker does: on record and on the maker's account.
func (n *Node) startScheduled(ctx context.Context, who *identity.Principal, q execution.Request) (
	execution.Execution, bool, error,
) {
	if n.audit != nil {
		e := audit.Entry{
			Principal: who.Name, Tenant: who.Tenant, Act: "schedule start", Object: "/v1/executions/" + q.ID,
		}
		if err := n.audit.Record(ctx, e); err != nil {
			return execution.Execution{}, false, err
		}
	}
	return n.host.StartFor(ctx, who.Holder(), q)
}

// noteDisabled records that something of a principal works no more.
func (n *Node) noteDisabled(act, principal string, tenant reprise.Tenant, object string) {
	if n.audit != nil {
		n.audit.Note(audit.Entry{Principal: principal, Tenant: tenant, Act: act, Object: object})
	}
}
