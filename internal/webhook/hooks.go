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

// Options are the settings of Hooks. The zero value of each field means its default, but for Principal.
type Options struct {
	// Principal says what a principal may do now. It is required.
	Principal func(ctx context.Context, tenant reprise.Tenant, name string) (identity.Principal, error)
	// Allow are addresses that receivers may have beside public ones.
	Allow []netip.Prefix
	// GiveUp is how long a receiver may fail before its hook is disabled. Default: 72 hours.
	GiveUp time.Duration
	// LookEvery is how often new streams are looked for. Default: 1 s.
	LookEvery time.Duration
	// FirstPause and MostPause are the spans of the pauses between tries. Defaults: 1 s, 5 minutes.
	FirstPause, MostPause time.Duration
	// Queue bounds what is kept to be sent by one hook. Default: 20,000 events, of which a message takes two, and
	// 64 MiB.
	Queue reprise.Retention
	// MaxPerTenant is how many hooks a tenant may have. Default: 100.
	MaxPerTenant int
	// Events are told what happens.
	Events Events
	// Logger is told of what goes wrong. Default: silent.
	Logger *slog.Logger
}

// Events are functions that are called as things happen. Each may be nil.
type Events struct {
	// Tried is called after each try.
	Tried func(hook *Hook, answer *Answer, took time.Duration)
	// Dropped is called when messages cannot be sent any more, with their number.
	Dropped func(hook *Hook, messages uint64)
	// Disabled is called when a hook was disabled.
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

// registryKey is the stream of all webhooks, with their secrets.
var registryKey = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "webhooks"}

// Open reads the webhooks in log. ctx bounds that.
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

// Close ends following changes. What Send does must have ended before.
func (h *Hooks) Close() {
	h.known.Close()
	h.client.CloseIdleConnections()
}

// Any waits until there is a webhook, or returns the cause of ctx.
func (h *Hooks) Any(ctx context.Context) error { return h.known.Any(ctx) }

// Add makes a webhook and returns it with its secret. What it covers and happens from now on is sent. The error is a
// *FieldError, reprise.ErrQuota if the tenant has as many as it may have, or that of the Log.
func (h *Hooks) Add(ctx context.Context, q Request) (Hook, error) {
	if err := q.validate(); err != nil {
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

// List returns the webhooks of a tenant, the newest first. Their secrets are for nobody.
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

// Progress returns how far a webhook is.
func (h *Hooks) Progress(ctx context.Context, hook *Hook) (Progress, error) {
	return readProgress(ctx, h.log, hook)
}

// Remove removes a webhook of a tenant with what was not sent. The error is reprise.ErrNotFound, reprise.ErrConflict if
// it was changed at the same time, or that of the Log.
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

// Rotate gives a webhook another secret, which it returns with it. The one before signs as well for a time, so that the
// receiver can take the new one meanwhile; older ones sign no more. The errors are those of Remove.
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

// Enable lets a webhook that was disabled go on after what it has sent, in the name of a principal. The errors are
// those of Remove.
func (h *Hooks) Enable(ctx context.Context, tenant reprise.Tenant, id, principal string) (Hook, error) {
	hook, version, err := h.find(tenant, id)
	if err != nil || hook.Disabled == nil {
		return hook, err
	}
	hook.Disabled, hook.Principal = nil, principal
	return hook, h.known.Set(ctx, id, version, &hook)
}

// Test sends a message of the type "webhook.test" once, past the queue, and returns what came of it. The error is
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

// disable stops a webhook.
func (h *Hooks) disable(ctx context.Context, hook *Hook, version uint64, reason string) error {
	off := *hook
	off.Disabled = &Disabled{Since: time.Now().UTC().Truncate(time.Millisecond), Reason: reason}
	err := h.known.Set(ctx, hook.ID, version, &off)
	if errors.Is(err, reprise.ErrConflict) {
		return nil // who has changed it knows it newer
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
