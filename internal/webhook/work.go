package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/registry"
)

// ownerName is the owner name of the sender; its fence is Send's.
const ownerName = "webhooks"

// Send works for all webhooks until ctx is done and returns the cause. fence must be higher than in all earlier calls
// on any replica. If another call has a higher fence, the error is reprise.ErrFenced.
func (h *Hooks) Send(ctx context.Context, fence uint64) error {
	owner := reprise.Owner{Name: ownerName, Fence: fence}
	return h.known.Each(ctx, func(hook *Hook) bool { return hook.Disabled == nil },
		func(ctx context.Context, e registry.Entry[Hook]) error { return h.work(ctx, e, owner) })
}

// Bounds of the pauses after an error of our own.
const (
	firstRepair = 100 * time.Millisecond
	mostRepair  = 10 * time.Second
	lastedLong  = time.Minute
)

// work serves a hook until ctx is done, the hook is disabled, or another replica has taken over.
func (h *Hooks) work(ctx context.Context, e registry.Entry[Hook], owner reprise.Owner) error {
	wait := backoff.Backoff{First: firstRepair, Most: mostRepair}
	for {
		began := time.Now()
		err := h.workOnce(ctx, &e.Value, owner)
		if ctx.Err() != nil || errors.Is(err, reprise.ErrFenced) {
			return err
		}
		if off, ok := errors.AsType[*disableError](err); ok {
			if err = h.disable(ctx, &e.Value, e.Version, off.reason); err == nil {
				return nil
			}
		}
		h.opts.Logger.Info("a webhook has to wait", "webhook", e.Value.ID, "tenant", e.Value.Tenant, "error", err)
		if time.Since(began) > lastedLong {
			wait.Reset()
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}

// workOnce collects and sends until either fails.
func (h *Hooks) workOnce(ctx context.Context, hook *Hook, owner reprise.Owner) error {
	q, err := openQueue(ctx, h.log, hook, owner)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var tasks sync.WaitGroup
	collect := &collector{hooks: h, hook: hook, queue: q}
	send := &sender{hooks: h, hook: hook, queue: q}
	tasks.Go(func() { cancel(collect.run(ctx)) })
	tasks.Go(func() { cancel(send.run(ctx)) })
	tasks.Wait()
	return context.Cause(ctx)
}
