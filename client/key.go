package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// KeyRequest describes an API key to make. It is the body of POST /v1/keys.
type KeyRequest struct {
	// Name is for people: 1 to 64 letters, digits, '.', '_' and '-'.
	Name string `json:"name"`
	// Tenant is whose data the key can access; "" is "default".
	Tenant string `json:"tenant,omitempty"`
	// Scopes are "read", "publish", "run", "control", "admin" and "audit". The first four may have a prefix: "run:ci-".
	Scopes []string `json:"scopes"`
	// Limits are quotas of the key, such as "running". For all others the server's limits apply.
	Limits map[string]int64 `json:"limits,omitempty"`
	// TTL is the lifetime, at least 1s; 0 is no end.
	TTL Duration `json:"ttl,omitzero"`
}

// Key is an API key as the server shows it.
type Key struct {
	ID      string           `json:"id"`
	Name    string           `json:"name"`
	Tenant  string           `json:"tenant"`
	Scopes  []string         `json:"scopes"`
	Limits  map[string]int64 `json:"limits,omitempty"`
	Created Time             `json:"created"`
	// Rotated is when the text was last replaced, Expires when the key ends by itself, Revoked when it was ended.
	Rotated Time `json:"rotated"`
	Expires Time `json:"expires"`
	Revoked Time `json:"revoked"`
	// Key is the text of the key, if it was just made.
	Key string `json:"key,omitempty"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// Keys are the API keys of all tenants. They need the scope "admin".
type Keys struct{ noun noun }

// Keys returns the API keys of the server of c.
func (c *Client) Keys() Keys { return Keys{noun{c, "key"}} }

// List returns the keys, newest first, with those that are revoked or have expired.
func (k Keys) List(ctx context.Context) ([]Key, error) {
	list, err := answer[struct {
		Keys []Key `json:"keys"`
	}](ctx, k.noun.client, k.noun.listing())
	return list.Keys, err
}

// Create makes a key. Its text cannot be retrieved later. The request is not sent again once it may have arrived.
func (k Keys) Create(ctx context.Context, q KeyRequest) (Key, error) {
	return create[Key](ctx, k.noun, q)
}

// Show returns a key without its text.
func (k Keys) Show(ctx context.Context, id string) (Key, error) {
	return ask[Key](ctx, k.noun, request{op: "show", method: http.MethodGet}, id, "")
}

// Rotate replaces the text of a key. Connections that were opened with the old one end. The request is not sent again
// once it may have arrived.
func (k Keys) Rotate(ctx context.Context, id string) (Key, error) {
	return ask[Key](ctx, k.noun, request{op: "rotate", method: http.MethodPost, once: true}, id, "/rotate")
}

// Limit replaces all quotas of a key. A quota that is not in limits has no bound of its own; 0 allows nothing.
func (k Keys) Limit(ctx context.Context, id string, limits map[string]int64) (Key, error) {
	if limits == nil {
		limits = map[string]int64{}
	}
	r, err := jsonRequest("limit", http.MethodPut, "", map[string]any{"limits": limits})
	if err != nil {
		return Key{}, err
	}
	return ask[Key](ctx, k.noun, *r, id, "/limits")
}

// Revoke ends a key permanently. Connections that were opened with it end; running commands continue.
func (k Keys) Revoke(ctx context.Context, id string) error { return k.noun.remove(ctx, "revoke", id) }

// Quotas are the quotas of a principal and of its tenant.
type Quotas struct {
	Tenant string `json:"tenant"`
	// Principal is nil if only the tenant was requested.
	Principal *string `json:"principal"`
	Quotas    []Quota `json:"quotas"`
}

// Quota is the usage of one quota.
type Quota struct {
	// Name is "running" or "bytes", for example.
	Name string `json:"quota"`
	// Of is the owner: "principal", "tenant", or "server" for a limit that all share.
	Of   string `json:"of"`
	Used int64  `json:"used"`
	// Limit is nil if there is none.
	Limit *int64 `json:"limit"`
}

// Quotas returns the quotas of the principal and the tenant of c. With the scope "admin", a tenant or a principal may
// be named: the limits of the tenant and, unless principal is "", of one of its principals are returned.
func (c *Client) Quotas(ctx context.Context, tenant, principal string) (Quotas, error) {
	query := url.Values{}
	setText(query, "tenant", tenant)
	setText(query, "principal", principal)
	return answer[Quotas](ctx, c, &request{op: "show quotas", method: http.MethodGet, path: "/v1/quota", query: query})
}
