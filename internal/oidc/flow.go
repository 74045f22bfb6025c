package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/identity"
)

// Flow is one login of a person at a provider: the authorization code flow with PKCE (RFC 7636).
type Flow struct {
	Provider string // Issuer.Name
	// State comes back with the code, Nonce in the ID token, and Verifier proves to the provider who began.
	State, Nonce, Verifier string
}

// maxFlows bounds the requests for logins that wait for providers at a time.
const maxFlows = 8

// errNoProvider means that people cannot log in at a provider.
var errNoProvider = fmt.Errorf("%w: people cannot log in at this provider", reprise.ErrInvalid)

// Providers returns the names of the issuers at which people can log in. A nil Verifier has none.
func (v *Verifier) Providers() []string {
	names := []string{}
	if v == nil {
		return names
	}
	for _, i := range v.issuers {
		if i.ClientID != "" {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Redirect is the only URL to which a provider may send a person back.
func (v *Verifier) Redirect() string { return v.opts.Resource.URL + "/" }

// provider returns the issuer of a flow.
func (v *Verifier) provider(name string) (*issuer, error) {
	if v != nil {
		for _, i := range v.issuers {
			if i.Name == name && i.ClientID != "" {
				return i, nil
			}
		}
	}
	return nil, errNoProvider
}

// waiting calls f in turn, for at most Options.FetchTimeout. Errors of f that do not wrap identity.ErrUnauthenticated
// become ones that wrap reprise.ErrUnavailable, and are logged.
func (v *Verifier) waiting(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, v.opts.FetchTimeout, errSlow)
	defer cancel()
	select {
	case v.flows <- struct{}{}:
		defer func() { <-v.flows }()
	case <-ctx.Done():
		return fmt.Errorf("%w: too many people log in at the moment", reprise.ErrUnavailable)
	}
	err := f(ctx)
	if err == nil || errors.Is(err, identity.ErrUnauthenticated) {
		return err
	}
	v.opts.Logger.Warn("a login at an identity provider failed", "error", err)
	return fmt.Errorf("%w: the identity provider does not answer as it should", reprise.ErrUnavailable)
}

// Authorize returns the URL at which a person logs in. The error wraps reprise.ErrInvalid for an unknown provider, or
// reprise.ErrUnavailable.
func (v *Verifier) Authorize(ctx context.Context, f Flow) (string, error) {
	i, err := v.provider(f.Provider)
	if err != nil {
		return "", err
	}
	var at *url.URL
	err = v.waiting(ctx, func(ctx context.Context) error {
		found, err := i.document(ctx, v.client)
		if err == nil {
			at, err = found.endpoint(found.Authorization)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	challenge := sha256.Sum256([]byte(f.Verifier))
	query := at.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": i.ClientID, "redirect_uri": v.Redirect(), "scope": i.LoginScope,
		"resource": v.opts.Resource.URL, "state": f.State, "nonce": f.Nonce,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	at.RawQuery = query.Encode()
	return at.String(), nil
}

// Exchange returns the access token for a code, which counts once. from is the issuer that the answer of the provider
// names (RFC 9207), or "". The error wraps reprise.ErrInvalid for an unknown provider,
// identity.ErrUnauthenticated or reprise.ErrUnavailable.
func (v *Verifier) Exchange(ctx context.Context, f Flow, code, from string) (token string, err error) {
	i, err := v.provider(f.Provider)
	if err != nil {
		return "", err
	}
	if from != "" && from != i.URL {
		return "", fmt.Errorf("%w: the code comes from another issuer", identity.ErrUnauthenticated)
	}
	err = v.waiting(ctx, func(ctx context.Context) error {
		found, err := i.document(ctx, v.client)
		if err != nil {
			return err
		}
		at, err := found.endpoint(found.Token)
		if err != nil {
			return err
		}
		var id string
		if token, id, err = v.redeem(ctx, at, url.Values{
			"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {v.Redirect()},
			"client_id": {i.ClientID}, "code_verifier": {f.Verifier}, "resource": {v.opts.Resource.URL},
		}); err != nil {
			return err
		}
		return v.checkID(ctx, i, id, f.Nonce)
	})
	return token, err
}

// redeem posts a form to the token endpoint of a provider and returns the access token and the ID token.
func (v *Verifier) redeem(ctx context.Context, at *url.URL, form url.Values) (token, id string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	res, err := v.client.Do(req)
	if err != nil {
		return "", "", fetchError(ctx, at.String(), err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxDocument))
	if err != nil {
		return "", "", fetchError(ctx, at.String(), err)
	}
	switch {
	case res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusUnauthorized:
		v.opts.Logger.Warn("an identity provider refused a code", "endpoint", at.String(),
			"answer", fmt.Sprintf("%.200q", text))
		return "", "", wrong("the identity provider refuses the code")
	case res.StatusCode != http.StatusOK:
		return "", "", fmt.Errorf("%s answers with the status %d", at, res.StatusCode)
	}
	var answer struct {
		Token string `json:"access_token"`
		ID    string `json:"id_token"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", "", fmt.Errorf("%s: %w", at, err)
	}
	return answer.Token, answer.ID, nil
}

// checkID checks that an ID token is the issuer's answer to a nonce, for our client (OpenID Connect Core, 3.1.3.7).
func (v *Verifier) checkID(ctx context.Context, i *issuer, token, nonce string) error {
	by, _, c, err := v.signed(ctx, token)
	if err != nil {
		return err
	}
	if by != i || !slices.Contains(c.list("aud", false), i.ClientID) {
		return refused("is an ID token of another issuer, or for another client")
	}
	if subtle.ConstantTimeCompare([]byte(c.text("nonce")), []byte(nonce)) != 1 {
		return refused("is an ID token of another login")
	}
	_, err = c.during(time.Now(), v.opts.Leeway)
	return err
}
