package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/apikey"
	"reprise/internal/datadir"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/storeurl"
)

// keyCmd makes, shows and revokes API keys.
type keyCmd struct {
	Add    keyAddCmd    `cmd:"" help:"Make an API key and print its text, which is not shown again."`
	List   keyListCmd   `cmd:"" help:"List the API keys of all tenants."`
	Show   keyShowCmd   `cmd:"" help:"Show an API key."`
	Rotate keyRotateCmd `cmd:"" help:"Replace the text of an API key, and print the new one."`
	Limit  keyLimitCmd  `cmd:"" help:"Change the quotas of an API key."`
	Revoke keyRevokeCmd `cmd:"" help:"Revoke API keys permanently; their open connections end."`
}

// Help is shown below the usage.
func (*keyCmd) Help() string {
	return `The verb sends its requests to the same server as the other verbs, with the token of the server or a key with the scope admin. If no server runs, the verb changes the keys directly: in the data directory, or in a store that replicas share.`
}

// keyPlace says whose keys.
type keyPlace struct {
	storeKeys `embed:""`
	Server    connect `embed:""`

	Data  string   `placeholder:"DIR" help:"Data directory of the server. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store storeURL `placeholder:"URL" help:"Store of the server; @FILE reads the URL from a file. Default: what is in the data directory."`
	JSON  bool     `name:"json" help:"Print lines of JSON."`
}

// use calls do with the keys of the server that uses the place, or with those that lie there if none does.
func (p *keyPlace) use(ctx context.Context, asked *stops, do func(context.Context, apiKeys) error) error {
	place := &storePlace{storeKeys: p.storeKeys, Server: p.Server, Data: p.Data, Store: p.Store}
	ask := func(ctx context.Context, server *client.Client) error { return do(ctx, server.Keys()) }
	return place.askOr(ctx, asked, ask, func() error {
		if storeurl.IsRemote(p.Store.url) {
			return place.useLog(ctx, asked, func(ctx context.Context, _ reprise.Store, log *reprise.Log) error {
				return useAPIKeys(ctx, log, place.dataDir(), do)
			})
		}
		dir, err := datadir.Lock(place.dataDir())
		if err != nil {
			return err
		}
		ctx, release := asked.context(ctx)
		defer release()
		return errors.Join(useAPIKeys(ctx, nil, dir.Path, do), dir.Close())
	})
}

// useAPIKeys opens the keys in the place of a server.
func useAPIKeys(ctx context.Context, log *reprise.Log, dir string, do func(context.Context, apiKeys) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	journal, opts := apikey.In(dir, log)
	keys, err := apikey.Open(ctx, journal, opts)
	if err != nil {
		return err
	}
	defer keys.Close()
	return do(ctx, localKeys{keys})
}

// showText prints the text of a key that was made: alone on stdout, for programs.
func (p *keyPlace) showText(key client.Key, err error) error {
	if err != nil {
		return err
	}
	if p.JSON {
		return printKey(&key)
	}
	fmt.Fprintf(os.Stderr, "API key %s, which is not shown again:\n", key.ID)
	_, err = fmt.Fprintln(stdout, key.Key)
	return err
}

// printKey prints a key as JSON.
func printKey(key *client.Key) error {
	if key.Raw != nil { // with what only the server knows
		return printObject(key.Raw)
	}
	return printObject(key)
}

// keyAddCmd makes a key.
type keyAddCmd struct {
	keyPlace `embed:""`

	Name   string        `arg:"" help:"Name of the agent or person, for lists and logs."`
	Tenant string        `default:"default" placeholder:"NAME" help:"Tenant whose data the key can access. Default: ${default}."`
	Scope  []string      `required:"" placeholder:"SCOPE" help:"Scope: read, publish, run, control, admin or audit. The first four may have a name prefix, as in read:ci-. May be repeated."`
	TTL    time.Duration `name:"ttl" placeholder:"DURATION" help:"Lifetime. Default: no expiry."`
	Limit  []string      `env:"-" placeholder:"QUOTA=N" help:"Quota of the key, instead of --limit-principal of serve: running, queued, starts, streams, bytes, readers, sessions, requests, calls or upload, as in running=5,bytes=1GiB. May be repeated."`
}

// Run makes it.
func (c *keyAddCmd) Run(ctx context.Context, asked *stops) error {
	for _, text := range c.Scope {
		if _, err := identity.ParseGrant(text); err != nil {
			return usage("--scope: %w", err)
		}
	}
	limits, err := quota.ParseLimits(c.Limit, nil)
	if err != nil {
		return usage("--limit: %w", err)
	}
	q := client.KeyRequest{
		Name: c.Name, Tenant: c.Tenant, Scopes: c.Scope, Limits: limits.Plain(), TTL: client.Duration(c.TTL),
	}
	if c.TTL != 0 && c.TTL < time.Second {
		return usage("--ttl %v: a key is good for at least 1s", c.TTL)
	}
	return c.use(ctx, asked, func(ctx context.Context, keys apiKeys) error {
		return c.showText(keys.Create(ctx, q))
	})
}

// keyListCmd lists the keys.
type keyListCmd struct {
	keyPlace `embed:""`
}

// Run lists them.
func (c *keyListCmd) Run(ctx context.Context, asked *stops) error {
	return c.use(ctx, asked, func(ctx context.Context, keys apiKeys) error {
		list, err := keys.List(ctx)
		if err != nil {
			return err
		}
		t := newTable(stdout, "ID", "NAME", "TENANT", "STATE", "CREATED", "SCOPES")
		for i := range list {
			key := &list[i]
			if c.JSON {
				if err := printKey(key); err != nil {
					return err
				}
				continue
			}
			t.row(key.ID, key.Name, key.Tenant, keyState(key), moment(key.Created), strings.Join(key.Scopes, " "))
		}
		return t.flush()
	})
}

// keyState says whether a key is good.
func keyState(k *client.Key) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Expires.IsZero() && !time.Now().Before(k.Expires.Time):
		return "expired"
	}
	return "good"
}

// keyShowCmd shows a key.
type keyShowCmd struct {
	keyPlace `embed:""`

	ID string `arg:"" help:"Id of the key."`
}

// Run shows it.
func (c *keyShowCmd) Run(ctx context.Context, asked *stops) error {
	return c.use(ctx, asked, func(ctx context.Context, keys apiKeys) error {
		return c.show(keys.Show(ctx, c.ID))
	})
}

// show prints all of a key but its text.
func (p *keyPlace) show(key client.Key, err error) error {
	if err != nil {
		return err
	}
	if p.JSON {
		return printKey(&key)
	}
	t := newTable(stdout)
	t.row("key", key.ID)
	t.row("name", key.Name)
	t.row("tenant", key.Tenant)
	t.row("state", keyState(&key))
	t.row("scopes", strings.Join(key.Scopes, " "))
	if len(key.Limits) > 0 {
		t.row("limits", quota.FromPlain(key.Limits).String())
	}
	t.row("created", moment(key.Created))
	for _, at := range []struct {
		what string
		when client.Time
	}{{"rotated", key.Rotated}, {"expires", key.Expires}, {"revoked", key.Revoked}} {
		if !at.when.IsZero() {
			t.row(at.what, moment(at.when))
		}
	}
	return t.flush()
}

// keyLimitCmd gives a key other quotas.
type keyLimitCmd struct {
	keyPlace `embed:""`

	ID    string   `arg:"" help:"Id of the key."`
	Limit []string `arg:"" optional:"" name:"quota" placeholder:"QUOTA=N" help:"Quotas of the key, which replace all its present ones: running, queued, starts, streams, bytes, readers, sessions, requests, calls or upload, as in running=5,bytes=1GiB. Default: none; --limit-principal of serve applies."`
}

// Run does that.
func (c *keyLimitCmd) Run(ctx context.Context, asked *stops) error {
	var texts []string
	for _, text := range c.Limit {
		texts = append(texts, strings.Split(text, ",")...)
	}
	limits, err := quota.ParseLimits(texts, nil)
	if err != nil {
		return usage("%w", err)
	}
	return c.use(ctx, asked, func(ctx context.Context, keys apiKeys) error {
		return c.show(keys.Limit(ctx, c.ID, limits.Plain()))
	})
}

// keyRotateCmd gives a key another text.
type keyRotateCmd struct {
	keyPlace `embed:""`

	ID string `arg:"" help:"Id of the key."`
}

// Run does that.
func (c *keyRotateCmd) Run(ctx context.Context, asked *stops) error {
	return c.use(ctx, asked, func(ctx context.Context, keys apiKeys) error {
		return c.showText(keys.Rotate(ctx, c.ID))
	})
}

// keyRevokeCmd revokes keys.
type keyRevokeCmd struct {
	keyPlace `embed:""`

	IDs []string `arg:"" name:"id" help:"Ids of the keys."`
}

// Run revokes them, as many as it can.
func (c *keyRevokeCmd) Run(ctx context.Context, asked *stops) error {
	return c.use(ctx, asked, func(ctx context.Context, keys apiKeys) error {
		return each(c.IDs, func(id string) error {
			if err := keys.Revoke(ctx, id); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			return nil
		})
	})
}
