package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"reprise"
	"reprise/client"
	"reprise/internal/quota"
)

// quotaFlags bound what principals and tenants use.
type quotaFlags struct {
	LimitPrincipal []string `placeholder:"QUOTA=N" help:"Quota of each principal whose API key has none: running, queued, starts (per minute), streams, bytes, readers, sessions (of MCP), requests (of MCP, per minute), calls (of MCP), upload (bytes per minute). May be repeated. Default: none."`
	LimitTenant    []string `placeholder:"[TENANT:]QUOTA=N" help:"Quota of each tenant, or of a named tenant. May be repeated. Default: none."`
}

// gatewayQuotaFlags are the same for a gateway, which counts fewer quotas.
type gatewayQuotaFlags struct {
	LimitPrincipal []string `placeholder:"QUOTA=N" help:"Quota of each principal whose API key has none: sessions, requests (per minute), calls. May be repeated. Default: none."`
	LimitTenant    []string `placeholder:"[TENANT:]QUOTA=N" help:"Quota of each tenant, or of a named tenant: the same, and streams and bytes. May be repeated. Default: none."`
}

// parseLimit reads a quota and its bound, such as "running=5" or "bytes=1GiB", into limits.
func parseLimit(limits quota.Limits, text string) error {
	name, bound, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is not a quota and limit such as running=5", text)
	}
	q := quota.Name(strings.TrimSpace(name))
	if _, twice := limits[q]; twice {
		return fmt.Errorf("the quota %s is given twice", q)
	}
	var size byteCount
	n, err := strconv.ParseInt(bound, 10, 64)
	if err != nil && q.IsSize() {
		err = size.UnmarshalText([]byte(bound))
		n = int64(size)
	}
	if err != nil {
		return fmt.Errorf("%q is not a limit of the quota %s", bound, q)
	}
	limits[q] = n
	return limits.Validate()
}

// parseLimits reads the flags of one principal.
func parseLimits(flag string, texts []string) (quota.Limits, error) {
	limits := quota.Limits{}
	for _, text := range texts {
		if err := parseLimit(limits, text); err != nil {
			return nil, usage("--%s: %w", flag, err)
		}
	}
	return limits, nil
}

// quotaOptions reads the flags of a program that counts the named quotas, nil for all.
func (f *quotaFlags) quotaOptions(names []quota.Name) (*quota.Options, error) {
	principal, err := parseLimits("limit-principal", f.LimitPrincipal)
	if err != nil {
		return nil, err
	}
	opts := &quota.Options{
		Names: names, Principal: principal, Tenant: quota.Limits{}, Tenants: map[reprise.Tenant]quota.Limits{},
	}
	for _, text := range f.LimitTenant {
		limits := opts.Tenant
		if tenant, rest, named := strings.Cut(text, ":"); named {
			t := reprise.Tenant(tenant)
			if err := (reprise.StreamKey{Tenant: t, Name: "x"}).Validate(); err != nil {
				return nil, usage("--limit-tenant: %w", err)
			}
			if opts.Tenants[t] == nil {
				opts.Tenants[t] = quota.Limits{}
			}
			limits, text = opts.Tenants[t], rest
		}
		if err := parseLimit(limits, text); err != nil {
			return nil, usage("--limit-tenant: %w", err)
		}
	}
	for _, limits := range append(slices.Collect(maps.Values(opts.Tenants)), opts.Tenant, opts.Principal) {
		for name := range limits {
			if names != nil && !slices.Contains(names, name) {
				return nil, usage("the quota %s is not counted here, only %v", name, names)
			}
		}
	}
	return opts, nil
}

// quotaCmd shows quotas.
type quotaCmd struct {
	Server connect `embed:""`

	Tenant    string `placeholder:"NAME" help:"Show the quotas of a tenant; for the admin. Default: those of your tenant and your principal."`
	Principal string `placeholder:"NAME" help:"Also show those of a principal of the tenant, such as ci.k7x2m9q4wd; for the admin."`
	JSON      bool   `name:"json" help:"Print lines of JSON."`
}

// Help is shown below the usage.
func (*quotaCmd) Help() string {
	return `Shows the usage of each quota of the principal and of its tenant, and the limit if there is one. If replicas share a store, streams and bytes are those of all replicas, and the other values are those of the replica that answers. Quotas are set by --limit of "reprise key add", and by --limit-principal and --limit-tenant of "reprise serve".`
}

// Run shows them.
func (c *quotaCmd) Run(ctx context.Context, asked *stops) error {
	server, err := c.Server.client()
	if err != nil {
		return err
	}
	ctx, release := asked.context(ctx)
	defer release()
	shown, err := server.Quotas(ctx, c.Tenant, c.Principal)
	if err != nil {
		return err
	}
	t := newTable(stdout, "QUOTA", "OF", "USED", "LIMIT")
	for i := range shown.Quotas {
		q := &shown.Quotas[i]
		if c.JSON {
			if err := printObject(q); err != nil {
				return err
			}
			continue
		}
		limit := "none"
		if q.Limit != nil {
			limit = amount(q, *q.Limit)
		}
		t.row(q.Name, q.Of, amount(q, q.Used), limit)
	}
	return t.flush()
}

// amount is an amount of a quota for people.
func amount(q *client.Quota, n int64) string {
	if quota.Name(q.Name).IsSize() {
		return byteCount(n).String()
	}
	return strconv.FormatInt(n, 10)
}
