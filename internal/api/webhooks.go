package api

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/webhook"
)

// webhooksPath is the prefix of the paths that need Options.Webhooks.
const webhooksPath = "/v1/webhooks"

func (s *Server) webhookRoutes(m *web.Mux) {
	m.Handle("GET", webhooksPath, identity.ScopeControl, nil, s.listWebhooks)
	m.Handle("POST", webhooksPath, identity.ScopeControl, nil, s.addWebhook)
	m.Handle("GET", webhooksPath+"/{id}", identity.ScopeControl, nil, s.showWebhook)
	m.Handle("DELETE", webhooksPath+"/{id}", identity.ScopeControl, nil, s.removeWebhook)
	m.Handle("POST", webhooksPath+"/{id}/rotate", identity.ScopeControl, nil, s.rotateWebhook)
	m.Handle("POST", webhooksPath+"/{id}/enable", identity.ScopeControl, nil, s.enableWebhook)
	m.Handle("POST", webhooksPath+"/{id}/test", identity.ScopeControl, nil, s.testWebhook)
}

// webhookBody is how a webhook is shown.
type webhookBody struct {
	ID        string           `json:"id"`
	URL       string           `json:"url"`
	Source    webhook.Source   `json:"source"`
	Stream    string           `json:"stream,omitempty"`
	Prefix    string           `json:"prefix,omitempty"`
	Types     []string         `json:"types"`
	Principal string           `json:"principal"`
	Created   execution.Time   `json:"created"`
	Secrets   []secretBody     `json:"secrets"`
	Disabled  *webhookDisabled `json:"disabled"`
	// Progress is set in answers with one webhook.
	Progress *webhookProgress `json:"progress,omitempty"`
	// Secret is the text of a new secret, and "" otherwise.
	Secret string   `json:"secret,omitempty"`
	Links  keyLinks `json:"links"`
}

type secretBody struct {
	Created execution.Time  `json:"created"`
	Expires *execution.Time `json:"expires"`
}

type webhookDisabled struct {
	Since  execution.Time `json:"since"`
	Reason string         `json:"reason"`
}

type webhookProgress struct {
	Queued    uint64          `json:"queued"`
	Sent      uint64          `json:"sent"`
	Dropped   uint64          `json:"dropped"`
	Succeeded *execution.Time `json:"succeeded"`
	Failing   *execution.Time `json:"failing"`
	Status    int             `json:"status,omitempty"`
	Error     string          `json:"error,omitempty"`
}

func webhookPath(id string) string { return webhooksPath + "/" + url.PathEscape(id) }

func showHook(h *webhook.Hook, secret string) webhookBody {
	body := webhookBody{
		ID: h.ID, URL: h.URL, Source: h.Source, Stream: h.Stream, Prefix: h.Prefix,
		Types:     append([]string{}, h.Types...),
		Principal: h.Principal, Created: timeOf(h.Created), Secret: secret, Links: keyLinks{webhookPath(h.ID)},
	}
	for _, s := range h.Secrets {
		body.Secrets = append(body.Secrets, secretBody{timeOf(s.Created), timeIf(s.Expires)})
	}
	if h.Disabled != nil {
		body.Disabled = &webhookDisabled{timeOf(h.Disabled.Since), h.Disabled.Reason}
	}
	return body
}

// mayUseWebhook reports whether a principal may see and change a webhook: the principal must be allowed to read and
// control the streams or executions of the webhook.
func mayUseWebhook(x *web.Exchange, h *webhook.Hook) bool {
	name := h.Stream + h.Prefix
	return x.Who.MayOn(identity.ScopeControl, name) && x.Who.MayOn(identity.ScopeRead, name)
}

// webhookOf finds the webhook in the path. For a sender that may not use it, the webhook does not exist.
func (s *Server) webhookOf(x *web.Exchange) (webhook.Hook, error) {
	hook, err := s.opts.Webhooks.Find(x.Who.Tenant, x.R.PathValue("id"))
	if err == nil && !mayUseWebhook(x, &hook) {
		err = reprise.ErrNotFound
	}
	if err != nil {
		return hook, fmt.Errorf("%w: there is no webhook with this id", reprise.ErrNotFound)
	}
	return hook, nil
}

func (s *Server) listWebhooks(x *web.Exchange) error {
	shown := []webhookBody{}
	for _, hook := range s.opts.Webhooks.List(x.Who.Tenant) {
		if mayUseWebhook(x, &hook) {
			shown = append(shown, showHook(&hook, ""))
		}
	}
	return x.Answer(http.StatusOK, struct {
		Webhooks []webhookBody `json:"webhooks"`
	}{shown})
}

func (s *Server) showWebhook(x *web.Exchange) error {
	hook, err := s.webhookOf(x)
	if err != nil {
		return err
	}
	p, err := s.opts.Webhooks.Progress(x.R.Context(), &hook)
	if err != nil {
		return err
	}
	body := showHook(&hook, "")
	body.Progress = &webhookProgress{
		p.Queued, p.Sent, p.Dropped, timeIf(p.Succeeded), timeIf(p.Failing), p.Status, p.Error,
	}
	return x.Answer(http.StatusOK, body)
}

func (s *Server) addWebhook(x *web.Exchange) error {
	var body struct {
		URL    string   `json:"url"`
		Source string   `json:"source"`
		Stream string   `json:"stream"`
		Prefix string   `json:"prefix"`
		Types  []string `json:"types"`
		Secret string   `json:"secret"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	asked := webhook.Hook{Stream: body.Stream, Prefix: body.Prefix}
	if body.URL != "" && !mayUseWebhook(x, &asked) {
		return fmt.Errorf("%w: a webhook needs the scopes \"control\" and \"read\" for all that it tells of",
			identity.ErrForbidden)
	}
	hook, err := s.opts.Webhooks.Add(x.R.Context(), webhook.Request{
		Tenant: x.Who.Tenant, Principal: x.Who.Name, URL: body.URL, Source: webhook.Source(body.Source),
		Stream: body.Stream, Prefix: body.Prefix, Types: body.Types, Secret: body.Secret,
	})
	if err != nil {
		return err
	}
	x.Made(webhookPath(hook.ID))
	x.W.Header().Set("Location", webhookPath(hook.ID))
	return x.Answer(http.StatusCreated, showHook(&hook, hook.Secrets[0].Text))
}

func (s *Server) removeWebhook(x *web.Exchange) error {
	hook, err := s.webhookOf(x)
	if err == nil {
		err = s.opts.Webhooks.Remove(x.R.Context(), hook.Tenant, hook.ID)
	}
	if err != nil {
		return err
	}
	return x.Done()
}

// secretOverlap is how long the previous secret also signs after a rotation.
const secretOverlap = 24 * time.Hour

func (s *Server) rotateWebhook(x *web.Exchange) error {
	hook, err := s.webhookOf(x)
	if err == nil {
		hook, err = s.opts.Webhooks.Rotate(x.R.Context(), hook.Tenant, hook.ID, secretOverlap)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showHook(&hook, hook.Secrets[0].Text))
}

func (s *Server) enableWebhook(x *web.Exchange) error {
	hook, err := s.webhookOf(x)
	if err == nil {
		hook, err = s.opts.Webhooks.Enable(x.R.Context(), hook.Tenant, hook.ID, x.Who.Name)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showHook(&hook, ""))
}

func (s *Server) testWebhook(x *web.Exchange) error {
	hook, err := s.webhookOf(x)
	if err != nil {
		return err
	}
	answer, err := s.opts.Webhooks.Test(x.R.Context(), hook.Tenant, hook.ID)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, answer)
}
