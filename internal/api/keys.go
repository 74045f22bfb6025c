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

func keyPath(id string) string { return keysPath + "/" + url.PathEscape(id) }

func timeIf(t *time.Time) *execution.Time {
	if t == nil {
		return nil
	}
	return new(timeOf(*t))
}

func (s *Server) listKeys(x *exchange) error {
	shown := []keyBody{}
	for _, key := range s.opts.Keys.List() {
		shown = append(shown, showAPIKey(&key, ""))
	}
	return s.answer(x, http.StatusOK, struct {
		Keys []keyBody `json:"keys"`
	}{shown})
}

func (s *Server) showKey(x *exchange) error {
	key, err := s.opts.Keys.Key(x.r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showAPIKey(&key, ""))
}

func (s *Server) addKey(x *exchange) error {
	var body struct {
		Name   string             `json:"name"`
		Tenant reprise.Tenant     `json:"tenant"`
		Scopes []string           `json:"scopes"`
		Limits quota.Limits       `json:"limits"`
		TTL    execution.Duration `json:"ttl"`
	}
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	q := apikey.Request{Name: body.Name, Tenant: body.Tenant, Limits: body.Limits}
	if q.Tenant == "" {
		q.Tenant = reprise.DefaultTenant
	}
	for _, text := range body.Scopes {
		grant, err := identity.ParseGrant(text)
		if err != nil {
			return unprocessable("scopes", err.Error())
		}
		q.Scopes = append(q.Scopes, grant)
	}
	switch {
	case body.TTL < 0 || body.TTL > 0 && time.Duration(body.TTL) < time.Second:
		return unprocessable("ttl", "a key is good for at least 1s")
	case body.TTL > 0:
		q.Expires = time.Now().Add(time.Duration(body.TTL))
	}
	key, text, err := s.opts.Keys.Add(x.r.Context(), q)
	if field, reason := apikey.Field(err); field != "" {
		return unprocessable(field, reason)
	}
	if err != nil {
		return err
	}
	s.recordMade(x, keyPath(key.ID))
	x.w.Header().Set("Location", keyPath(key.ID))
	return s.answer(x, http.StatusCreated, showAPIKey(&key, text))
}

func (s *Server) rotateKey(x *exchange) error {
	key, text, err := s.opts.Keys.Rotate(x.r.Context(), x.r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showAPIKey(&key, text))
}

func (s *Server) limitKey(x *exchange) error {
	var body struct {
		Limits quota.Limits `json:"limits"`
	}
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	if body.Limits == nil {
		return unprocessable("limits", "it is an object with bounds by quota, {} for none of its own")
	}
	key, err := s.opts.Keys.SetLimits(x.r.Context(), x.r.PathValue("id"), body.Limits)
	if field, reason := apikey.Field(err); field != "" {
		return unprocessable(field, reason)
	}
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showAPIKey(&key, ""))
}

func (s *Server) revokeKey(x *exchange) error {
	if _, err := s.opts.Keys.Revoke(x.r.Context(), x.r.PathValue("id")); err != nil {
		return err
	}
	return x.done()
}
