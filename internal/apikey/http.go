package apikey

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/client"
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
	client.Key
	Links wire.Links `json:"links"`
}

func bodyOf(k *Key, text string) keyBody {
	return keyBody{k.Shown(text), wire.Links{Self: keyPath(k.ID)}}
}

// Shown is how k is shown, with the text of the key where it was just made.
func (k *Key) Shown(text string) client.Key {
	shown := client.Key{
		ID: k.ID, Name: k.Name, Tenant: string(k.Tenant), Scopes: make([]string, len(k.Scopes)),
		Limits: k.Limits.Plain(), Created: wire.At(k.Created), Rotated: wire.Given(k.Rotated),
		Expires: wire.Given(k.Expires), Revoked: wire.Given(k.Revoked), Key: text,
	}
	for i, grant := range k.Scopes {
		shown.Scopes[i] = grant.String()
	}
	return shown
}

// RequestOf reads the form of a Request that clients send. Field finds the member in the error.
func RequestOf(body *client.KeyRequest) (Request, error) {
	q := Request{
		Name: body.Name, Tenant: cmp.Or(reprise.Tenant(body.Tenant), reprise.DefaultTenant),
		Limits: quota.FromPlain(body.Limits),
	}
	for _, text := range body.Scopes {
		grant, err := identity.ParseGrant(text)
		if err != nil {
			return q, &errField{"scopes", err.Error()}
		}
		q.Scopes = append(q.Scopes, grant)
	}
	switch ttl := time.Duration(body.TTL); {
	case ttl < 0 || ttl > 0 && ttl < time.Second:
		return q, &errField{"ttl", "a key is good for at least 1s"}
	case ttl > 0:
		q.Expires = time.Now().Add(ttl)
	}
	return q, nil
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
	var body client.KeyRequest
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	q, err := RequestOf(&body)
	if err != nil {
		return refusal(err)
	}
	key, text, err := a.Keys.Add(x.R.Context(), q)
	if err != nil {
		return refusal(err)
	}
	x.Made(keyPath(key.ID))
	x.W.Header().Set("Location", keyPath(key.ID))
	return x.Answer(http.StatusCreated, bodyOf(&key, text))
}

// refusal names the member that err is about, if it is about one.
func refusal(err error) error {
	if field, reason := Field(err); field != "" {
		return web.Unprocessable(field, reason)
	}
	return err
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
		return web.Unprocessable("limits", "must map quota names to numbers; {} removes all limits")
	}
	key, err := a.Keys.SetLimits(x.R.Context(), x.R.PathValue("id"), body.Limits)
	if err != nil {
		return refusal(err)
	}
	return x.Answer(http.StatusOK, bodyOf(&key, ""))
}

func (a API) revoke(x *web.Exchange) error {
	if _, err := a.Keys.Revoke(x.R.Context(), x.R.PathValue("id")); err != nil {
		return err
	}
	return x.Done()
}
