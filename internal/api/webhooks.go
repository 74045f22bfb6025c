package api

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/webhook"
)

// webhooksPath is the prefix of the paths that need Options.Webhooks.
const webhooksPath = "/v1/webhooks"

func webhookRoutes() []route {
	return []route{
		{"GET", webhooksPath, identity.ScopeControl, nil, (*Server).listWebhooks},
		{"POST", webhooksPath, identity.ScopeControl, nil, (*Server).addWebhook},
		{"GET", webhooksPath + "/{id}", identity.ScopeControl, nil, (*Server).showWebhook},
		{"DELETE", webhooksPath + "/{id}", identity.ScopeControl, nil, (*Server).removeWebhook},
		{"POST", webhooksPath + "/{id}/rotate", identity.ScopeControl, nil, (*Server).rotateWebhook},
		{"POST", webhooksPath + "/{id}/enable", identity.ScopeControl, nil, (*Server).enableWebhook},
		{"POST", webhooksPath + "/{id}/test", identity.ScopeControl, nil, (*Server).testWebhook},
	}
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
func (x *exchange) mayUseWebhook(h *webhook.Hook) bool {
	name := h.Stream + h.Prefix
	return x.who.MayOn(identity.ScopeControl, name) && x.who.MayOn(identity.ScopeRead, name)
}

// webhookOf finds the webhook in the path. For a sender that may not use it, the webhook does not exist.
func (s *Server) webhookOf(x *exchange) (webhook.Hook, error) {
	hook, err := s.opts.Webhooks.Find(x.who.Tenant, x.r.PathValue("id"))
	if err == nil && !x.mayUseWebhook(&hook) {
		err = reprise.ErrNotFound
	}
	if err != nil {
		return hook, fmt.Errorf("%w: there is no webhook with this id", reprise.ErrNotFound)
	}
	return hook, nil
}

func (s *Server) listWebhooks(x *exchange) error {
	shown := []webhookBody{}
	for _, hook := range s.opts.Webhooks.List(x.who.Tenant) {
		if x.mayUseWebhook(&hook) {
			shown = append(shown, showHook(&hook, ""))
		}
	}
	return s.answer(x, http.StatusOK, struct {
		Webhooks []webhookBody `json:"webhooks"`
	}{shown})
}

func (s *Server) showWebhook(x *exchange) error {
	hook, err := s.webhookOf(x)
	if err != nil {
		return err
	}
	p, err := s.opts.Webhooks.Progress(x.r.Context(), &hook)
	if err != nil {
		return err
	}
	body := showHook(&hook, "")
	body.Progress = &webhookProgress{
		p.Queued, p.Sent, p.Dropped, timeIf(p.Succeeded), timeIf(p.Failing), p.Status, p.Error,
	}
	return s.answer(x, http.StatusOK, body)
}

func (s *Server) addWebhook(x *exchange) error {
	var body struct {
		URL    string   `json:"url"`
		Source string   `json:"source"`
		Stream string   `json:"stream"`
		Prefix string   `json:"prefix"`
		Types  []string `json:"types"`
		Secret string   `json:"secret"`
	}
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	asked := webhook.Hook{Stream: body.Stream, Prefix: body.Prefix}
	if body.URL != "" && !x.mayUseWebhook(&asked) {
		return fmt.Errorf("%w: a webhook needs the scopes \"control\" and \"read\" for all that it tells of",
			identity.ErrForbidden)
	}
	hook, err := s.opts.Webhooks.Add(x.r.Context(), webhook.Request{
		Tenant: x.who.Tenant, Principal: x.who.Name, URL: body.URL, Source: webhook.Source(body.Source),
		Stream: body.Stream, Prefix: body.Prefix, Types: body.Types, Secret: body.Secret,
	})
	if err != nil {
		return err
	}
	s.recordMade(x, webhookPath(hook.ID))
	x.w.Header().Set("Location", webhookPath(hook.ID))
	return s.answer(x, http.StatusCreated, showHook(&hook, hook.Secrets[0].Text))
}

func (s *Server) removeWebhook(x *exchange) error {
	hook, err := s.webhookOf(x)
	if err == nil {
		err = s.opts.Webhooks.Remove(x.r.Context(), hook.Tenant, hook.ID)
	}
	if err != nil {
		return err
	}
	return x.done()
}

// secretOverlap is how long the previous secret also signs after a rotation.
const secretOverlap = 24 * time.Hour

func (s *Server) rotateWebhook(x *exchange) error {
	hook, err := s.webhookOf(x)
	if err == nil {
		hook, err = s.opts.Webhooks.Rotate(x.r.Context(), hook.Tenant, hook.ID, secretOverlap)
	}
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showHook(&hook, hook.Secrets[0].Text))
}

func (s *Server) enableWebhook(x *exchange) error {
	hook, err := s.webhookOf(x)
	if err == nil {
		hook, err = s.opts.Webhooks.Enable(x.r.Context(), hook.Tenant, hook.ID, x.who.Name)
	}
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showHook(&hook, ""))
}

func (s *Server) testWebhook(x *exchange) error {
	hook, err := s.webhookOf(x)
	if err != nil {
		return err
	}
	answer, err := s.opts.Webhooks.Test(x.r.Context(), hook.Tenant, hook.ID)
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, answer)
}
