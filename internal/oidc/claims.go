package oidc

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/quota"
)

// claims are the members of a token's payload. Names are case-sensitive, as in JSON and unlike in structs of
// encoding/json: a claim "Sub", which users may choose, is not "sub".
type claims map[string]json.RawMessage

// refused returns the error for a token that its issuer has signed but that is not valid here, or is no longer valid.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: the token %s", identity.ErrUnauthenticated, fmt.Sprintf(format, args...))
}

// text returns a claim that is a string, or "".
func (c claims) text(name string) string {
	var s string
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}

// list returns a claim that is an array of strings, or one string. With spaced, the words of a string are its elements.
func (c claims) list(name string, spaced bool) []string {
	var list []string
	if json.Unmarshal(c[name], &list) == nil {
		return list
	}
	switch s := c.text(name); {
	case s == "":
		return nil
	case spaced:
		return strings.Fields(s)
	default:
		return []string{s}
	}
}

// texts returns the named claims that are strings or whole numbers.
func (c claims) texts(names []string) map[string]string {
	texts := map[string]string{}
	for _, name := range names {
		text := c.text(name)
		if _, err := strconv.ParseInt(string(c[name]), 10, 64); err == nil {
			text = string(c[name])
		}
		if text != "" {
			texts[name] = text
		}
	}
	return texts
}

// time returns a NumericDate, the zero Time if the claim is missing.
func (c claims) time(name string) (time.Time, error) {
	raw, ok := c[name]
	if !ok {
		return time.Time{}, nil
	}
	var seconds float64
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds < 0 || seconds > 1<<40 || string(raw) == "null" {
		return time.Time{}, refused("has a claim %s that is no time", name)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}

// during checks the times of a token and returns its expiry.
func (c claims) during(now time.Time, leeway time.Duration) (expires time.Time, err error) {
	expires, err = c.time("exp")
	if err != nil {
		return expires, err
	}
	if expires.IsZero() {
		return expires, refused("has no claim exp: it would never expire")
	}
	expires = expires.Add(leeway)
	if !now.Before(expires) {
		return expires, refused("has expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		from, err := c.time(name)
		if err != nil {
			return expires, err
		}
		if now.Add(leeway).Before(from) {
			return expires, refused("is not yet good, by its claim %s", name)
		}
	}
	return expires, nil
}

// principal returns the principal that the claims name by the rule of the issuer. It is not yet bound to a key or an
// audience.
func (i *Issuer) principal(c claims) (identity.Principal, error) {
	name := c.text(i.NameClaim)
	if len(name) > maxNamePart || !isPrintable(name) {
		return identity.Principal{},
			refused("has no claim %s of 1 to %d printable characters without spaces", i.NameClaim,
				maxNamePart)
	}
	tenant := i.Tenant
	if i.TenantClaim != "" {
		tenant = reprise.Tenant(c.text(i.TenantClaim))
		allowed := tenant != reprise.DefaultTenant
		if i.Tenants != nil {
			allowed = slices.Contains(i.Tenants, tenant)
		}
		if !allowed || !isTenant(tenant) {
			return identity.Principal{}, refused("names no tenant that its issuer may name, in the claim %s",
				i.TenantClaim)
		}
	}
	limits, err := i.limits(c)
	if err != nil {
		return identity.Principal{}, err
	}
	return identity.Principal{
		Name: name + "@" + i.Name, Tenant: tenant, Grants: i.grants(c), Limits: limits, Issuer: i.URL,
	}, nil
}

// limits returns the quotas of a principal: those in its claim, and those of the issuer for other quotas. A malformed
// claim refuses the token and does not remove the bounds.
func (i *Issuer) limits(c claims) (quota.Limits, error) {
	raw, ok := c[i.LimitsClaim]
	if !ok || i.LimitsClaim == "" {
		return i.Limits, nil
	}
	var claimed quota.Limits
	if err := json.Unmarshal(raw, &claimed); err != nil || claimed == nil {
		return nil, refused("has a claim %s that is no object of whole numbers", i.LimitsClaim)
	}
	if err := claimed.Validate(); err != nil {
		return nil, refused("has a claim %s that is not good: %v", i.LimitsClaim, err)
	}
	limits := maps.Clone(i.Limits)
	if limits == nil {
		limits = quota.Limits{}
	}
	maps.Copy(limits, claimed)
	return limits, nil
}

// maxGrants bounds the grants of one token.
const maxGrants = 64

// grants returns the grants of a token's scopes and groups. Unknown scopes are ignored, since providers add scopes of
// other services, such as "openid".
func (i *Issuer) grants(c claims) []identity.Grant {
	grants := slices.Clone(i.Scopes)
	for _, text := range i.scopeTexts(c) {
		name, ours := strings.CutPrefix(text, i.ScopePrefix)
		scope, _, _ := strings.Cut(name, ":")
		if !ours || !slices.Contains(i.Allow, identity.Scope(scope)) {
			continue
		}
		if g, err := identity.ParseGrant(name); err == nil {
			grants = append(grants, g)
		}
	}
	for _, group := range c.list(i.GroupsClaim, false) {
		grants = append(grants, i.Groups[group]...)
	}
	var kept []identity.Grant
	for _, g := range grants {
		if len(kept) < maxGrants && slices.Contains(i.Allow, g.Scope) && !slices.Contains(kept, g) {
			kept = append(kept, g)
		}
	}
	return kept
}

func (i *Issuer) scopeTexts(c claims) []string {
	if i.ScopeClaim != "" {
		return c.list(i.ScopeClaim, true)
	}
	if _, ok := c["scope"]; ok {
		return c.list("scope", true)
	}
	return c.list("scp", true)
}

// ruled returns the claims that the rule of the issuer uses, with only the groups that grant something.
func (i *Issuer) ruled(c claims) claims {
	kept := claims{}
	for _, name := range []string{"exp", i.NameClaim, i.TenantClaim, i.ScopeClaim, i.LimitsClaim, "scope", "scp"} {
		if raw, ok := c[name]; ok && name != "" {
			kept[name] = raw
		}
	}
	var groups []string
	for _, group := range c.list(i.GroupsClaim, false) {
		if i.Groups[group] != nil {
			groups = append(groups, group)
		}
	}
	if groups != nil {
		kept[i.GroupsClaim], _ = json.Marshal(groups) // a list of strings always has a JSON form
	}
	return kept
}
