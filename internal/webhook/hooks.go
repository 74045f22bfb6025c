package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/registry"
)

// Options are the settings of Hooks. Principal is required; the zero value of every other field means its default.
type Options struct {
	// Principal returns the current permissions of a principal.
	Principal func(ctx context.Context, tenant reprise.Tenant, name string) (identity.Principal, error)
	// Allow lists addresses that receivers may have besides public ones.
	Allow []netip.Prefix
	// GiveUp is how long a receiver may fail before its hook is disabled. Default: 72 hours.
	GiveUp time.Duration
	// LookEvery is how often to search for new streams. Default: 1 s.
	LookEvery time.Duration
	// FirstPause and MostPause bound the pauses between tries. Defaults: 1 s, 5 minutes.
	FirstPause, MostPause time.Duration
	// Queue bounds the queue of one hook. Default: 20,000 events, of which a message takes two, and 64 MiB.
	Queue reprise.Retention
	// MaxPerTenant bounds the hooks of a tenant. Default: 100.
	MaxPerTenant int
	// Events are called as things happen.
	Events Events
	// Logger receives errors. Default: silent.
	Logger *slog.Logger
}

// Events are functions that Hooks call as things happen. Each may be nil.
type Events struct {
	// Tried is called after each try.
	Tried func(hook *Hook, answer *Answer, took time.Duration)
	// Dropped is called with the number of messages that can no longer be sent.
	Dropped func(hook *Hook, messages uint64)
	// Disabled is called when a hook is disabled.
	Disabled func(hook *Hook, reason string)
}

func (e *Events) tried(hook *Hook, answer *Answer, took time.Duration) {
	if e.Tried != nil {
		e.Tried(hook, answer, took)
	}
}

func (e *Events) dropped(hook *Hook, messages uint64) {
	if e.Dropped != nil {
		e.Dropped(hook, messages)
	}
}

// Hooks are the webhooks of all tenants. They are safe for concurrent use.
type Hooks struct {
	log    *reprise.Log
	opts   Options
	client *http.Client
	known  *registry.Registry[Hook]
}

// registryKey names the stream of all webhooks and their secrets.
var registryKey = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "webhooks"}

// Open reads the webhooks in log. ctx bounds the reading.
func Open(ctx context.Context, log *reprise.Log, opts *Options) (*Hooks, error) {
	h := &Hooks{log: log, opts: *opts}
	setDefault(&h.opts.GiveUp, 72*time.Hour)
	setDefault(&h.opts.LookEvery, time.Second)
	setDefault(&h.opts.FirstPause, time.Second)
	setDefault(&h.opts.MostPause, 5*time.Minute)
	setDefault(&h.opts.Queue, defaultQueue)
	setDefault(&h.opts.MaxPerTenant, 100)
	if h.opts.Logger == nil {
		h.opts.Logger = slog.New(slog.DiscardHandler)
	}
	h.client = newClient(h.opts.Allow)
	var err error
	h.known, err = registry.Open[Hook](ctx, log, registryKey, &registry.Options{Logger: h.opts.Logger})
	return h, err
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Close stops following changes. Send must have returned before.
func (h *Hooks) Close() {
	h.known.Close()
	h.client.CloseIdleConnections()
}

// Any waits until there is a webhook, or returns the cause of ctx.
func (h *Hooks) Any(ctx context.Context) error { return h.known.Any(ctx) }

// Add creates a webhook and returns it with its secret. It covers events from now on. The error is a *FieldError,
// reprise.ErrQuota if the tenant has reached its limit, or comes from the Log.
func (h *Hooks) Add(ctx context.Context, q Request) (Hook, error) {
	if err := q.validate(); err != nil {
		return Hook{}, err
	}
	if err := h.checkLiteral(q.URL); err != nil {
		return Hook{}, err
	}
	if list := h.List(q.Tenant); len(list) >= h.opts.MaxPerTenant {
		return Hook{}, fmt.Errorf("%w: the tenant has %d webhooks", reprise.ErrQuota, len(list))
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	hook := Hook{
		ID: strings.ToLower(rand.Text()), Tenant: q.Tenant, URL: q.URL, Source: q.Source, Stream: q.Stream,
		Prefix: q.Prefix, Types: slices.Clone(q.Types), Principal: q.Principal, Created: now,
		Secrets: []Secret{newSecret(now)},
	}
	if q.Secret != "" {
		if hook.Secrets[0].Text = q.Secret; hook.Secrets[0].key() == nil {
			return Hook{}, invalid("secret", "it is %q and base64 of %d to %d bytes", secretPrefix, minKey, maxKey)
		}
	}
	from, err := begin(ctx, h.log, &hook)
	if err == nil {
		err = makeQueue(ctx, h.log, &hook, h.opts.Queue, from)
	}
	if err != nil {
		return Hook{}, err
	}
	if err := h.known.Set(ctx, hook.ID, 0, &hook); err != nil {
		return Hook{}, err
	}
	return hook, nil
}

// List returns the webhooks of a tenant without their secrets, newest first.
func (h *Hooks) List(tenant reprise.Tenant) []Hook {
	all, _ := h.known.All()
	list := []Hook{}
	for _, e := range all {
		if e.Value.Tenant == tenant {
			list = append(list, e.Value)
		}
	}
	slices.SortFunc(list, func(a, b Hook) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) })
	return list
}

// find returns a webhook of a tenant and its version. The error is reprise.ErrNotFound.
func (h *Hooks) find(tenant reprise.Tenant, id string) (Hook, uint64, error) {
	e, err := h.known.Find(id)
	if err == nil && e.Value.Tenant != tenant {
		err = fmt.Errorf("%w: there is no webhook with this id", reprise.ErrNotFound)
	}
	return e.Value, e.Version, err
}

// Find returns a webhook of a tenant. The error is reprise.ErrNotFound.
func (h *Hooks) Find(tenant reprise.Tenant, id string) (Hook, error) {
	hook, _, err := h.find(tenant, id)
	return hook, err
}

// Progress returns the progress of a webhook.
func (h *Hooks) Progress(ctx context.Context, hook *Hook) (Progress, error) {
	return readProgress(ctx, h.log, hook)
}

// Remove removes a webhook of a tenant and its unsent messages. The error is reprise.ErrNotFound, reprise.ErrConflict
// if it was changed at the same time, or comes from the Log.
func (h *Hooks) Remove(ctx context.Context, tenant reprise.Tenant, id string) error {
	hook, version, err := h.find(tenant, id)
	if err == nil {
		err = h.known.Set(ctx, id, version, nil)
	}
	if err == nil {
		err = h.log.Remove(ctx, hook.queueKey())
	}
	return err
}

// Rotate gives a webhook a new secret and returns both. The previous secret signs as well for the time overlap, so that
// the receiver can switch; older ones no longer sign. It returns the same errors as Remove.
func (h *Hooks) Rotate(ctx context.Context, tenant reprise.Tenant, id string, overlap time.Duration) (Hook, error) {
	hook, version, err := h.find(tenant, id)
	if err != nil {
		return Hook{}, err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	old := hook.Secrets[0]
	until := now.Add(overlap)
	old.Expires = &until
	hook.Secrets = []Secret{newSecret(now), old}
	return hook, h.known.Set(ctx, id, version, &hook)
}

// Enable lets a disabled webhook continue after the last message it sent, in the name of a principal. It returns the
// same errors as Remove.
func (h *Hooks) Enable(ctx context.Context, tenant reprise.Tenant, id, principal string) (Hook, error) {
	hook, version, err := h.find(tenant, id)
	if err != nil || hook.Disabled == nil {
		return hook, err
	}
	hook.Disabled, hook.Principal = nil, principal
	return hook, h.known.Set(ctx, id, version, &hook)
}

// Test sends a message of the type "webhook.test" once, without the queue, and returns the result. The error is
// reprise.ErrNotFound.
func (h *Hooks) Test(ctx context.Context, tenant reprise.Tenant, id string) (Answer, error) {
	hook, _, err := h.find(tenant, id)
	if err != nil {
		return Answer{}, err
	}
	text := body(typeTest, time.Now(), map[string]string{"webhook": id})
	m := &message{ID: messageID(id, "test", rand.Text()), Body: text}
	answer := h.post(ctx, &hook, m)
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	return answer, nil
}

// mostDisabling bounds the time that it takes to disable a webhook.
const mostDisabling = 10 * time.Second

// disable disables a webhook. ctx ends as soon as that is read, before it is answered.
func (h *Hooks) disable(ctx context.Context, hook *Hook, version uint64, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostDisabling)
	defer cancel()
	off := *hook
	off.Disabled = &Disabled{Since: time.Now().UTC().Truncate(time.Millisecond), Reason: reason}
	err := h.known.Set(ctx, hook.ID, version, &off)
	if errors.Is(err, reprise.ErrConflict) {
		return nil // the concurrent change is newer
	}
	if err == nil {
		h.opts.Logger.Warn("a webhook was disabled", "webhook", hook.ID, "tenant", hook.Tenant, "receiver", hook.host(),
			"reason", reason)
		if h.opts.Events.Disabled != nil {
			h.opts.Events.Disabled(hook, reason)
		}
	}
	return err
}
