package apikey

import (
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// API shows and changes API keys over HTTP.
type API struct{ Keys *Registry }

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	m.Handle("GET", "/v1/keys", identity.ScopeAdmin, nil, a.list)
	m.Handle("POST", "/v1/keys", identity.ScopeAdmin, nil, a.add)
	m.Handle("GET", "/v1/keys/{id}", identity.ScopeAdmin, nil, a.show)
	m.Handle("DELETE", "/v1/keys/{id}", identity.ScopeAdmin, nil, a.revoke)
	m.Handle("POST", "/v1/keys/{id}/rotate", identity.ScopeAdmin, nil, a.rotate)
	m.Handle("PUT", "/v1/keys/{id}/limits", identity.ScopeAdmin, nil, a.limit)
}

// keyBody is how an API key is shown.
type keyBody struct {
	ID      string           `json:"id"`
	Name    string           `json:"name"`
	Tenant  reprise.Tenant   `json:"tenant"`
	Scopes  []identity.Grant `json:"scopes"`
	Limits  quota.Limits     `json:"limits,omitempty"`
	Created wire.Time        `json:"created"`
	Rotated *wire.Time       `json:"rotated"`
	Expires *wire.Time       `json:"expires"`
	Revoked *wire.Time       `json:"revoked"`
	// Key is the text of a new key, and "" otherwise.
	Key   string     `json:"key,omitempty"`
	Links wire.Links `json:"links"`
}

func bodyOf(k *Key, text string) keyBody {
	return keyBody{
		ID: k.ID, Name: k.Name, Tenant: k.Tenant, Scopes: k.Scopes, Limits: k.Limits,
		Created: wire.At(k.Created), Rotated: wire.Given(k.Rotated), Expires: wire.Given(k.Expires),
		Revoked: wire.Given(k.Revoked),
		Key:     text, Links: wire.Links{Self: keyPath(k.ID)},
	}
}

func keyPath(id string) string { return "/v1/keys/" + url.PathEscape(id) }

func (a API) list(x *web.Exchange) error {
	shown := []keyBody{}
	for _, key := range a.Keys.List() {
		shown = append(shown, bodyOf(&key, ""))
	}
	return x.Answer(http.StatusOK, struct {
		Keys []keyBody `json:"keys"`
	}{shown})
}

func (a API) show(x *web.Exchange) error {
	key, err := a.Keys.Key(x.R.PathValue("id"))
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, bodyOf(&key, ""))
}

func (a API) add(x *web.Exchange) error {
	var body struct {
		Name   string             `json:"name"`
		Tenant reprise.Tenant     `json:"tenant"`
		Scopes []string           `json:"scopes"`
		Limits quota.Limits       `json:"limits"`
		TTL    execution.Duration `json:"ttl"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	q := Request{Name: body.Name, Tenant: body.Tenant, Limits: body.Limits}
	if q.Tenant == "" {
		q.Tenant = reprise.DefaultTenant
	}
	for _, text := range body.Scopes {
		grant, err := identity.ParseGrant(text)
		if err != nil {
			return web.Unprocessable("scopes", err.Error())
		}
		q.Scopes = append(q.Scopes, grant)
	}
	switch {
	case body.TTL < 0 || body.TTL > 0 && time.Duration(body.TTL) < time.Second:
		return web.Unprocessable("ttl", "a key is good for at least 1s")
	case body.TTL > 0:
		q.Expires = time.Now().Add(time.Duration(body.TTL))
	}
	key, text, err := a.Keys.Add(x.R.Context(), q)
	if field, reason := Field(err); field != "" {
		return web.Unprocessable(field, reason)
	}
	if err != nil {
		return err
	}
	x.Made(keyPath(key.ID))
	x.W.Header().Set("Location", keyPath(key.ID))
	return x.Answer(http.StatusCreated, bodyOf(&key, text))
}

func (a API) rotate(x *web.Exchange) error {
	key, text, err := a.Keys.Rotate(x.R.Context(), x.R.PathValue("id"))
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, bodyOf(&key, text))
}

func (a API) limit(x *web.Exchange) error {
	var body struct {
		Limits quota.Limits `json:"limits"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	if body.Limits == nil {
		return web.Unprocessable("limits", "it is an object with bounds by quota, {} for none of its own")
	}
	key, err := a.Keys.SetLimits(x.R.Context(), x.R.PathValue("id"), body.Limits)
	if field, reason := Field(err); field != "" {
		return web.Unprocessable(field, reason)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, bodyOf(&key, ""))
}

func (a API) revoke(x *web.Exchange) error {
	if _, err := a.Keys.Revoke(x.R.Context(), x.R.PathValue("id")); err != nil {
		return err
	}
	return x.Done()
}
