package api

import (
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/internal/apikey"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/web"
)

// keyBody is how an API key is shown.
type keyBody struct {
	ID      string           `json:"id"`
	Name    string           `json:"name"`
	Tenant  reprise.Tenant   `json:"tenant"`
	Scopes  []identity.Grant `json:"scopes"`
	Limits  quota.Limits     `json:"limits,omitempty"`
	Created execution.Time   `json:"created"`
	Rotated *execution.Time  `json:"rotated"`
	Expires *execution.Time  `json:"expires"`
	Revoked *execution.Time  `json:"revoked"`
	// Key is the text of a new key, and "" otherwise.
	Key   string   `json:"key,omitempty"`
	Links keyLinks `json:"links"`
}

type keyLinks struct {
	Self string `json:"self"`
}

func showAPIKey(k *apikey.Key, text string) keyBody {
	return keyBody{
		ID: k.ID, Name: k.Name, Tenant: k.Tenant, Scopes: k.Scopes, Limits: k.Limits,
		Created: timeOf(k.Created), Rotated: timeIf(k.Rotated), Expires: timeIf(k.Expires), Revoked: timeIf(k.Revoked),
		Key: text, Links: keyLinks{keyPath(k.ID)},
	}
}

func keyPath(id string) string { return "/v1/keys/" + url.PathEscape(id) }

func timeIf(t *time.Time) *execution.Time {
	if t == nil {
		return nil
	}
	return new(timeOf(*t))
}

func (s *Server) listKeys(x *web.Exchange) error {
	shown := []keyBody{}
	for _, key := range s.opts.Keys.List() {
		shown = append(shown, showAPIKey(&key, ""))
	}
	return x.Answer(http.StatusOK, struct {
		Keys []keyBody `json:"keys"`
	}{shown})
}

func (s *Server) showKey(x *web.Exchange) error {
	key, err := s.opts.Keys.Key(x.R.PathValue("id"))
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showAPIKey(&key, ""))
}

func (s *Server) addKey(x *web.Exchange) error {
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
	q := apikey.Request{Name: body.Name, Tenant: body.Tenant, Limits: body.Limits}
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
	key, text, err := s.opts.Keys.Add(x.R.Context(), q)
	if field, reason := apikey.Field(err); field != "" {
		return web.Unprocessable(field, reason)
	}
	if err != nil {
		return err
	}
	x.Made(keyPath(key.ID))
	x.W.Header().Set("Location", keyPath(key.ID))
	return x.Answer(http.StatusCreated, showAPIKey(&key, text))
}

func (s *Server) rotateKey(x *web.Exchange) error {
	key, text, err := s.opts.Keys.Rotate(x.R.Context(), x.R.PathValue("id"))
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showAPIKey(&key, text))
}

func (s *Server) limitKey(x *web.Exchange) error {
	var body struct {
		Limits quota.Limits `json:"limits"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	if body.Limits == nil {
		return web.Unprocessable("limits", "it is an object with bounds by quota, {} for none of its own")
	}
	key, err := s.opts.Keys.SetLimits(x.R.Context(), x.R.PathValue("id"), body.Limits)
	if field, reason := apikey.Field(err); field != "" {
		return web.Unprocessable(field, reason)
	}
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showAPIKey(&key, ""))
}

func (s *Server) revokeKey(x *web.Exchange) error {
	if _, err := s.opts.Keys.Revoke(x.R.Context(), x.R.PathValue("id")); err != nil {
		return err
	}
	return x.Done()
}
