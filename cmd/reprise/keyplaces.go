package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/apikey"
	"reprise/internal/identity"
	"reprise/internal/quota"
)

// apiKey is an API key, with its text where it was just made.
type apiKey struct {
	apikey.Key
	Text string `json:"key,omitempty"`

	raw json.RawMessage // as a server has sent it
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *apiKey) UnmarshalJSON(text []byte) error {
	type plain apiKey
	k.raw = bytes.Clone(text)
	return json.Unmarshal(text, (*plain)(k))
}

// object is what --json prints.
func (k *apiKey) object() any {
	if k.raw != nil {
		return k.raw
	}
	return k
}

// keyRequest says what key to make.
type keyRequest struct {
	Name   string           `json:"name"`
	Tenant string           `json:"tenant"`
	Scopes []identity.Grant `json:"scopes"`
	Limits quota.Limits     `json:"limits,omitempty"`
	TTL    time.Duration    `json:"-"`
}

// apiKeys are the keys of a server, or those that lie where one would keep them.
type apiKeys interface {
	add(ctx context.Context, q keyRequest) (*apiKey, error)
	list(ctx context.Context) ([]apiKey, error)
	show(ctx context.Context, id string) (*apiKey, error)
	rotate(ctx context.Context, id string) (*apiKey, error)
	limit(ctx context.Context, id string, limits quota.Limits) (*apiKey, error)
	revoke(ctx context.Context, id string) error
}

// localKeys are those of no server.
type localKeys struct{ registry *apikey.Registry }

func (l localKeys) add(ctx context.Context, q keyRequest) (*apiKey, error) {
	request := apikey.Request{Name: q.Name, Tenant: reprise.Tenant(q.Tenant), Scopes: q.Scopes, Limits: q.Limits}
	if q.TTL > 0 {
		request.Expires = time.Now().Add(q.TTL)
	}
	key, text, err := l.registry.Add(ctx, request)
	return &apiKey{Key: key, Text: text}, err
}

func (l localKeys) list(context.Context) ([]apiKey, error) {
	var list []apiKey
	for _, key := range l.registry.List() {
		list = append(list, apiKey{Key: key})
	}
	return list, nil
}

func (l localKeys) show(_ context.Context, id string) (*apiKey, error) {
	key, err := l.registry.Key(id)
	return &apiKey{Key: key}, err
}

func (l localKeys) rotate(ctx context.Context, id string) (*apiKey, error) {
	key, text, err := l.registry.Rotate(ctx, id)
	return &apiKey{Key: key, Text: text}, err
}

func (l localKeys) limit(ctx context.Context, id string, limits quota.Limits) (*apiKey, error) {
	key, err := l.registry.SetLimits(ctx, id, limits)
	return &apiKey{Key: key}, err
}

func (l localKeys) revoke(ctx context.Context, id string) error {
	_, err := l.registry.Revoke(ctx, id)
	return err
}

// remoteKeys are those of a server that runs.
type remoteKeys struct{ server *client.Client }

func (r remoteKeys) add(ctx context.Context, q keyRequest) (*apiKey, error) {
	body := struct {
		keyRequest
		TTL string `json:"ttl,omitempty"`
	}{keyRequest: q}
	if q.TTL > 0 {
		body.TTL = q.TTL.String()
	}
	var key apiKey
	return &key, r.ask(ctx, http.MethodPost, "", body, &key)
}

func (r remoteKeys) list(ctx context.Context) ([]apiKey, error) {
	var answer struct {
		Keys []apiKey `json:"keys"`
	}
	err := r.ask(ctx, http.MethodGet, "", nil, &answer)
	return answer.Keys, err
}

func (r remoteKeys) show(ctx context.Context, id string) (*apiKey, error) {
	var key apiKey
	return &key, r.ask(ctx, http.MethodGet, "/"+url.PathEscape(id), nil, &key)
}

func (r remoteKeys) rotate(ctx context.Context, id string) (*apiKey, error) {
	var key apiKey
	return &key, r.ask(ctx, http.MethodPost, "/"+url.PathEscape(id)+"/rotate", nil, &key)
}

func (r remoteKeys) limit(ctx context.Context, id string, limits quota.Limits) (*apiKey, error) {
	var key apiKey
	body := map[string]quota.Limits{"limits": limits}
	return &key, r.ask(ctx, http.MethodPut, "/"+url.PathEscape(id)+"/limits", body, &key)
}

func (r remoteKeys) revoke(ctx context.Context, id string) error {
	return r.ask(ctx, http.MethodDelete, "/"+url.PathEscape(id), nil, nil)
}

// ask sends a request below /v1/keys and reads the JSON of the answer into out, if that is not nil.
func (r remoteKeys) ask(ctx context.Context, method, path string, body, out any) error {
	return askJSON(ctx, r.server, method, "/v1/keys"+path, body, out)
}
