package webhook

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// webhooksPath is the prefix of the paths of webhooks.
const webhooksPath = "/v1/webhooks"

// API shows and changes webhooks over HTTP.
type API struct{ Hooks *Hooks }

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	m.Handle("GET", webhooksPath, identity.ScopeControl, nil, a.list)
	m.Handle("POST", webhooksPath, identity.ScopeControl, nil, a.add)
	m.Handle("GET", webhooksPath+"/{id}", identity.ScopeControl, nil, a.show)
	m.Handle("DELETE", webhooksPath+"/{id}", identity.ScopeControl, nil, a.remove)
	m.Handle("POST", webhooksPath+"/{id}/rotate", identity.ScopeControl, nil, a.rotate)
	m.Handle("POST", webhooksPath+"/{id}/enable", identity.ScopeControl, nil, a.enable)
	m.Handle("POST", webhooksPath+"/{id}/test", identity.ScopeControl, nil, a.test)
}

// webhookBody is how a webhook is shown.
type webhookBody struct {
	client.Webhook
	Links wire.Links `json:"links"`
}

func webhookPath(id string) string { return webhooksPath + "/" + url.PathEscape(id) }

func bodyOf(h *Hook, secret string) webhookBody {
	body := webhookBody{Links: wire.Links{Self: webhookPath(h.ID)}, Webhook: client.Webhook{
		ID: h.ID, URL: h.URL, Source: string(h.Source), Stream: h.Stream, Prefix: h.Prefix,
		Types:     append([]string{}, h.Types...),
		Principal: h.Principal, Created: wire.At(h.Created), Secret: secret,
	}}
	for _, s := range h.Secrets {
		body.Secrets = append(body.Secrets,
			client.WebhookSecret{Created: wire.At(s.Created), Expires: wire.Given(s.Expires)})
	}
	if h.Disabled != nil {
		body.Disabled = &client.Disabled{Since: wire.At(h.Disabled.Since), Reason: h.Disabled.Reason}
	}
	return body
}

// mayUse reports whether a principal may see and change a webhook: the principal must be allowed to read and
// control the streams or executions of the
func mayUse(x *web.Exchange, h *Hook) bool {
	name := h.Stream + h.Prefix
	return x.Who.MayOn(identity.ScopeControl, name) && x.Who.MayOn(identity.ScopeRead, name)
}

// find finds the webhook in the path. For a sender that may not use it, the webhook does not exist.
func (a API) find(x *web.Exchange) (Hook, error) {
	hook, err := a.Hooks.Find(x.Who.Tenant, x.R.PathValue("id"))
	if err == nil && !mayUse(x, &hook) {
		err = reprise.ErrNotFound
	}
	if err != nil {
		return hook, fmt.Errorf("%w: there is no webhook with this id", reprise.ErrNotFound)
	}
	return hook, nil
}

func (a API) list(x *web.Exchange) error {
	shown := []webhookBody{}
	for _, hook := range a.Hooks.List(x.Who.Tenant) {
		if mayUse(x, &hook) {
			shown = append(shown, bodyOf(&hook, ""))
		}
	}
	return x.Answer(http.StatusOK, struct {
		Webhooks []webhookBody `json:"webhooks"`
	}{shown})
}

func (a API) show(x *web.Exchange) error {
	hook, err := a.find(x)
	if err != nil {
		return err
	}
	p, err := a.Hooks.Progress(x.R.Context(), &hook)
	if err != nil {
		return err
	}
	body := bodyOf(&hook, "")
	body.Progress = &client.WebhookProgress{
		Queued: p.Queued, Sent: p.Sent, Dropped: p.Dropped, Succeeded: wire.Given(p.Succeeded),
		Failing: wire.Given(p.Failing), Status: p.Status, Error: p.Error,
	}
	return x.Answer(http.StatusOK, body)
}

func (a API) add(x *web.Exchange) error {
	var body client.WebhookRequest
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	asked := Hook{Stream: body.Stream, Prefix: body.Prefix}
	if body.URL != "" && !mayUse(x, &asked) {
		return fmt.Errorf("%w: a webhook needs the scopes \"control\" and \"read\" for all that it tells of",
			identity.ErrForbidden)
	}
	hook, err := a.Hooks.Add(x.R.Context(), Request{
		Tenant: x.Who.Tenant, Principal: x.Who.Name, URL: body.URL, Source: Source(body.Source),
		Stream: body.Stream, Prefix: body.Prefix, Types: body.Types, Secret: body.Secret,
	})
	if err != nil {
		return err
	}
	x.Made(webhookPath(hook.ID))
	x.W.Header().Set("Location", webhookPath(hook.ID))
	return x.Answer(http.StatusCreated, bodyOf(&hook, hook.Secrets[0].Text))
}

func (a API) remove(x *web.Exchange) error {
	hook, err := a.find(x)
	if err == nil {
		err = a.Hooks.Remove(x.R.Context(), hook.Tenant, hook.ID)
	}
	if err != nil {
		return err
	}
	return x.Done()
}

// secretOverlap is how long the previous secret also signs after a rotation.
const secretOverlap = 24 * time.Hour

func (a API) rotate(x *web.Exchange) error {
	hook, err := a.find(x)
	if err == nil {
		hook, err = a.Hooks.Rotate(x.R.Context(), hook.Tenant, hook.ID, secretOverlap)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, bodyOf(&hook, hook.Secrets[0].Text))
}

func (a API) enable(x *web.Exchange) error {
	hook, err := a.find(x)
	if err == nil {
		hook, err = a.Hooks.Enable(x.R.Context(), hook.Tenant, hook.ID, x.Who.Name)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, bodyOf(&hook, ""))
}

func (a API) test(x *web.Exchange) error {
	hook, err := a.find(x)
	if err != nil {
		return err
	}
	answer, err := a.Hooks.Test(x.R.Context(), hook.Tenant, hook.ID)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, client.WebhookAnswer{Status: answer.Status, Error: answer.Error})
}
