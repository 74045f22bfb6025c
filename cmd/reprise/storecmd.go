package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"reprise"
	"reprise/sqlitestore"
)

// storeCmd looks at a store or tidies it, in the place of a server.
type storeCmd struct {
	Stats storeStatsCmd `cmd:"" help:"Print what each tenant keeps."`
	Sweep storeSweepCmd `cmd:"" help:"Remove streams that are over age now. A server does so by itself."`
	Check storeCheckCmd `cmd:"" help:"Read everything and report what is damaged."`
	Copy  storeCopyCmd  `cmd:"" help:"Copy all streams to another store, where their cursors stay good."`

	Archive storeArchiveCmd `cmd:"" help:"Archive streams that have ended to files, a bucket or a topic."`
}

// storePlace says which store.
type storePlace struct {
	URL   string `arg:"" optional:"" help:"The store. Default: that of --store."`
	Data  string `default:"${state}" placeholder:"DIR" help:"Data directory of the server. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store string `default:"sqlite:" placeholder:"URL" help:"Store of the server. Default: ${default}"`
	JSON  bool   `name:"json" help:"Print lines of JSON."`
}

// use opens the store that is there already, for as long as do takes.
func (p *storePlace) use(ctx context.Context, asked *stops, do func(context.Context, reprise.Store) error) error {
	ctx, release := asked.context(ctx)
	defer release()
	if p.URL != "" {
		p.Store = p.URL
	}
	place, err := openPlace(ctx, p.Store, p.Data, true)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, place.store), place.close())
}

// useLog is use with a Log that does not sweep by itself.
func (p *storePlace) useLog(ctx context.Context, asked *stops, do func(context.Context, reprise.Store, *reprise.Log) error) error {
	return p.use(ctx, asked, func(ctx context.Context, store reprise.Store) error {
		log, err := reprise.Open(ctx, store, &reprise.Options{SweepEvery: -1})
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, store, log), log.Close())
	})
}

// storeStatsCmd prints sizes.
type storeStatsCmd struct {
	storePlace `embed:""`
}

// Run prints them.
func (c *storeStatsCmd) Run(ctx context.Context, asked *stops) error {
	return c.useLog(ctx, asked, func(ctx context.Context, store reprise.Store, log *reprise.Log) error {
		sizes, err := log.Sizes(ctx)
		if err != nil {
			return err
		}
		stats := storeStats{Tenants: map[reprise.Tenant]tenantSize{}}
		for tenant, size := range sizes {
			stats.Tenants[tenant] = tenantSize(size)
		}
		if file, ok := store.(*sqlitestore.Store); ok {
			size, err := file.Stats(ctx)
			if err != nil {
				return err
			}
			stats.SQLite = &size
		}
		if c.JSON {
			return printObject(stats)
		}
		return stats.print()
	})
}

// storeStats is what each tenant keeps, and what the file is made of.
type storeStats struct {
	Tenants map[reprise.Tenant]tenantSize `json:"tenants"`
	SQLite  *sqlitestore.Stats            `json:"sqlite,omitempty"`
}

// tenantSize is a reprise.Size as JSON.
type tenantSize struct {
	Streams int64 `json:"streams"`
	Events  int64 `json:"events"`
	Bytes   int64 `json:"bytes"`
}

func (s *storeStats) print() error {
	t := newTable(stdout)
	for _, tenant := range slices.Sorted(maps.Keys(s.Tenants)) {
		size := s.Tenants[tenant]
		t.row("tenant "+string(tenant), fmt.Sprintf("%d streams, %d events, %v", size.Streams, size.Events, byteCount(size.Bytes)))
	}
	if f := s.SQLite; f != nil {
		t.row("file", fmt.Sprintf("%v, of which %v are free", byteCount(f.FileBytes), byteCount(f.FreeBytes)))
		t.row("journal", fmt.Sprintf("%d commits, %v", f.Commits, byteCount(f.JournalBytes)))
		t.row("log", byteCount(f.WALBytes).String())
	}
	return t.flush()
}

// storeSweepCmd sweeps once.
type storeSweepCmd struct {
	storePlace `embed:""`
}

// Run sweeps.
func (c *storeSweepCmd) Run(ctx context.Context, asked *stops) error {
	return c.useLog(ctx, asked, func(ctx context.Context, _ reprise.Store, log *reprise.Log) error {
		swept, err := log.Sweep(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return printObject(map[string]int64{"streams": swept.Streams, "events": swept.Events, "bytes": swept.Bytes})
		}
		_, err = fmt.Fprintf(stdout, "removed %d streams with %d events, %v\n", swept.Streams, swept.Events, byteCount(swept.Bytes))
		return err
	})
}
