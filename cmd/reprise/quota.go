package main

import (
	"context"
	"strconv"

	"reprise/client"
	"reprise/internal/bytesize"
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

// quotas reads the flags of a program that counts the named quotas, nil for all.
func (f *quotaFlags) quotas(names []quota.Name) (*quota.Options, error) {
	opts := &quota.Options{Names: names}
	var err error
	if opts.Principal, err = quota.ParseLimits(f.LimitPrincipal, names); err != nil {
		return nil, usage("--limit-principal: %w", err)
	}
	if opts.Tenant, opts.Tenants, err = quota.ParseTenants(f.LimitTenant, names); err != nil {
		return nil, usage("--limit-tenant: %w", err)
	}
	return opts, nil
}

// quotaCmd shows quotas.
type quotaCmd struct {
	Server connect `embed:""`

	Tenant    string `placeholder:"NAME" help:"Show the quotas of a tenant; for the admin. Default: your tenant and your principal."`
	Principal string `placeholder:"NAME" help:"Also show the quotas of a principal of the tenant, such as ci.k7x2m9q4wd; for the admin."`
	JSON      bool   `name:"json" help:"Print lines of JSON."`
}

// Help is shown below the usage.
func (*quotaCmd) Help() string {
	return `Shows the usage of each quota of the principal and of its tenant, and the limit if there is one. If replicas share a store, streams and bytes count all replicas, and the other values only the replica that answers. Quotas are set by --limit of "reprise key add", and by --limit-principal and --limit-tenant of "reprise serve".`
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
		return bytesize.Size(n).String()
	}
	return strconv.FormatInt(n, 10)
}
