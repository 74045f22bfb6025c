package oidc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/quota"
)

// Issuer is an identity provider, and the rule that maps the claims of its tokens to a principal.
type Issuer struct {
	// URL is the issuer identifier, as in the claim iss: https, or http on loopback. It is also the base of discovery.
	URL string `yaml:"issuer"`
	// Name ends the names of the principals of the issuer: "alice@corp". Default: the URL without its scheme.
	Name string `yaml:"name"`
	// JWKS is the URL of the keys of an issuer without discovery. Default: the URL that discovery returns.
	JWKS string `yaml:"jwks"`
	// Audiences are the audiences of tokens for this server as a whole, besides Resource.URL.
	Audiences []string `yaml:"audiences"`
	// Tenant is the tenant of all principals of the issuer. Default: the default tenant, unless TenantClaim is set.
	Tenant reprise.Tenant `yaml:"tenant"`
	// TenantClaim is the claim that names the tenant. A token without it is refused. Default: all principals belong to
	// Tenant.
	TenantClaim string `yaml:"tenant_claim"`
	// Tenants lists the tenants that TenantClaim may name. Default: all but the default tenant.
	Tenants []reprise.Tenant `yaml:"tenants"`
	// NameClaim is the claim that identifies a principal of the issuer. Default: "sub".
	NameClaim string `yaml:"name_claim"`
	// ScopeClaim is the claim that lists scopes, as an array or separated by spaces. Default: "scope", or "scp" in a
	// token without it.
	ScopeClaim string `yaml:"scope_claim"`
	// ScopePrefix is the prefix of scopes for this server; other scopes are ignored. Default: "".
	ScopePrefix string `yaml:"scope_prefix"`
	// Scopes are granted to every token.
	Scopes []identity.Grant `yaml:"scopes"`
	// GroupsClaim is the claim that lists groups, and Groups the grants of each group. Default: "groups".
	GroupsClaim string                      `yaml:"groups_claim"`
	Groups      map[string][]identity.Grant `yaml:"groups"`
	// Limits are quotas of each principal. For other quotas those of the server apply. Default: none.
	Limits quota.Limits `yaml:"limits"`
	// LimitsClaim is the claim with quotas of the principal, an object of whole numbers by quota, which override
	// Limits. A token with a malformed claim is refused. Default: no claim is used.
	LimitsClaim string `yaml:"limits_claim"`
	// ClientID is the public client, without a secret, as which people log in to the console. Default: they cannot.
	// LoginScope is what is asked for then. Default: openid, and the scopes that Allow lists.
	ClientID   string `yaml:"client_id"`
	LoginScope string `yaml:"login_scope"`
	// Allow lists the scopes that may be granted. Default: read, publish, run and control.
	Allow []identity.Scope `yaml:"allow"`
}

// maxConfig bounds a file of issuers, in bytes.
const maxConfig = 1 << 20

// ReadConfig reads a YAML file: an object with the member issuers, whose members are the fields of Issuer. Unknown
// members are an error. The error wraps reprise.ErrInvalid.
func ReadConfig(r io.Reader) ([]Issuer, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfig {
		return nil, fmt.Errorf("%w: more than %d bytes", reprise.ErrInvalid, maxConfig)
	}
	var config struct {
		Issuers []Issuer `yaml:"issuers"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	if len(config.Issuers) == 0 {
		return nil, fmt.Errorf("%w: there are no issuers in it", reprise.ErrInvalid)
	}
	return config.Issuers, nil
}

// withDefaults returns i with its defaults filled in. The error wraps reprise.ErrInvalid.
func (i Issuer) withDefaults() (Issuer, error) {
	refuse := func(format string, args ...any) (Issuer, error) {
		return i, fmt.Errorf("%w: issuer %q: %s", reprise.ErrInvalid, i.URL, fmt.Sprintf(format, args...))
	}
	if err := checkURL(i.URL); err != nil {
		return refuse("%v", err)
	}
	if i.JWKS != "" {
		if err := checkURL(i.JWKS); err != nil {
			return refuse("jwks: %v", err)
		}
	}
	i.Name = cmp.Or(i.Name, strings.TrimSuffix(i.URL[strings.Index(i.URL, "://")+3:], "/"))
	i.NameClaim = cmp.Or(i.NameClaim, "sub")
	i.GroupsClaim = cmp.Or(i.GroupsClaim, "groups")
	if i.TenantClaim == "" {
		i.Tenant = cmp.Or(i.Tenant, reprise.DefaultTenant)
	}
	if i.Allow == nil {
		i.Allow = []identity.Scope{identity.ScopeRead, identity.ScopePublish, identity.ScopeRun, identity.ScopeControl}
	}
	if i.LoginScope == "" {
		i.LoginScope = "openid"
		for _, scope := range i.Allow {
			i.LoginScope += " " + i.ScopePrefix + string(scope)
		}
	}
	switch {
	case len(i.Name) > maxNamePart || !isPrintable(i.Name):
		return refuse("the name %q is not 1 to %d printable characters without spaces", i.Name, maxNamePart)
	case i.Tenant != "" && i.TenantClaim != "":
		return refuse("tenant and tenant_claim exclude each other")
	case i.Tenant != "" && !isTenant(i.Tenant):
		return refuse("the tenant %q", i.Tenant)
	case i.Limits.Validate() != nil:
		return refuse("limits: %v", i.Limits.Validate())
	case i.TenantClaim == "" && i.Tenants != nil:
		return refuse("tenants are those that tenant_claim may name, and there is none")
	}
	for _, tenant := range i.Tenants {
		if !isTenant(tenant) {
			return refuse("the tenant %q", tenant)
		}
	}
	for _, scope := range i.Allow {
		if !slices.Contains(identity.AllScopes(), scope) {
			return refuse("allow: the scope %q is not one of %v", scope, identity.AllScopes())
		}
	}
	return i, i.checkGrants()
}

// checkGrants refuses grants that Allow excludes, since they would have no effect.
func (i *Issuer) checkGrants() error {
	grants := slices.Clone(i.Scopes)
	for _, more := range i.Groups {
		grants = append(grants, more...)
	}
	for _, g := range grants {
		if !slices.Contains(i.Allow, g.Scope) {
			return fmt.Errorf("%w: issuer %q: the scope %s is granted and not among those that allow lists",
				reprise.ErrInvalid, i.URL, g.Scope)
		}
	}
	return nil
}

// checkURL refuses URLs over which keys could be modified in transit.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("%.200q is not the URL of a provider", text)
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Host):
		return nil
	}
	return fmt.Errorf("%.200q has to be https, or http on loopback", text)
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// reservedTenants is the prefix of the server's own tenants.
const reservedTenants = "reprise."

func isTenant(tenant reprise.Tenant) bool {
	key := reprise.StreamKey{Tenant: tenant, Name: "x"}
	return key.Validate() == nil && !strings.HasPrefix(string(tenant), reservedTenants)
}

// maxNamePart bounds each of the two parts of the name of a principal, in bytes.
const maxNamePart = 120

// isPrintable reports whether text is printable ASCII without spaces, quotes and backslashes.
func isPrintable(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
}
