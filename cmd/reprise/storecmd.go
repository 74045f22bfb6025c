package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"reprise"
	"reprise/internal/storeurl"
	"reprise/store/natsstore"
	"reprise/store/pgstore"
	"reprise/store/redisstore"
	"reprise/store/sqlitestore"
)

// storeCmd looks at a store or tidies it, in the place of a server.
type storeCmd struct {
	Stats storeStatsCmd `cmd:"" help:"Print what each tenant keeps."`
	Sweep storeSweepCmd `cmd:"" help:"Remove streams that are over age now. A server does so by itself."`
	Check storeCheckCmd `cmd:"" help:"Read everything and report what is damaged."`
	Copy  storeCopyCmd  `cmd:"" help:"Copy all streams to another store, where their cursors stay good."`

	Retire storeRetireCmd `cmd:"" help:"Let a store that is encrypted open without one of its old keys."`

	Archive storeArchiveCmd `cmd:"" help:"Archive streams that have ended to files, a bucket or a topic."`
}

// storePlace says which store.
type storePlace struct {
	storeKeys `embed:""`

	URL   string `arg:"" optional:"" help:"The store. Default: that of --store."`
	Data  string `default:"${state}" placeholder:"DIR" help:"Data directory of the server. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store string `default:"sqlite:" placeholder:"URL" help:"Store of the server. Default: ${default}"`
	JSON  bool   `name:"json" help:"Print lines of JSON."`

	unchecked bool // see storeurl.Options.Unchecked
}

// use opens the store that is there already, for as long as do takes.
func (p *storePlace) use(ctx context.Context, asked *stops, do func(context.Context, reprise.Store) error) error {
	ctx, release := asked.context(ctx)
	defer release()
	if p.URL != "" {
		p.Store = p.URL
	}
	place, err := openPlaceWith(ctx, p.Store, p.Data, &storeurl.Options{Keys: p.file(p.Data), Unchecked: p.unchecked},
		true)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, place.store), place.close())
}

// useLog is use with a Log that does not sweep by itself.
func (p *storePlace) useLog(ctx context.Context, asked *stops,
	do func(context.Context, reprise.Store, *reprise.Log) error,
) error {
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
		if err := stats.measure(ctx, innermost(store)); err != nil {
			return err
		}
		if c.JSON {
			return printObject(stats)
		}
		return stats.print()
	})
}

// storeStats is what each tenant keeps, and what the store says of itself.
type storeStats struct {
	Tenants  map[reprise.Tenant]tenantSize `json:"tenants"`
	SQLite   *sqlitestore.Stats            `json:"sqlite,omitempty"`
	Redis    *redisstore.Stats             `json:"redis,omitempty"`
	Postgres *pgstore.Stats                `json:"postgres,omitempty"`
	NATS     *natsstore.Stats              `json:"nats,omitempty"`
}

// measure asks the store of itself, if it is one that can say.
func (s *storeStats) measure(ctx context.Context, store reprise.Store) (err error) {
	switch store := store.(type) {
	case *sqlitestore.Store:
		s.SQLite, err = pointer(store.Stats(ctx))
	case *redisstore.Store:
		s.Redis, err = pointer(store.Stats(ctx))
	case *pgstore.Store:
		s.Postgres, err = pointer(store.Stats(ctx))
	case *natsstore.Store:
		s.NATS, err = pointer(store.Stats(ctx))
	}
	return err
}

func pointer[T any](v T, err error) (*T, error) { return &v, err }

// tenantSize is a reprise.Size as JSON.
type tenantSize struct {
	Streams int64 `json:"streams"`
	Events  int64 `json:"events"`
	Bytes   int64 `json:"bytes"`
	// Overhead is what is kept beside the events.
	Overhead int64 `json:"overhead"`
}

func (s *storeStats) print() error {
	t := newTable(stdout)
	for _, tenant := range slices.Sorted(maps.Keys(s.Tenants)) {
		size := s.Tenants[tenant]
		t.row("tenant "+string(tenant),
			fmt.Sprintf("%d streams, %d events, %v, and %v beside them",
				size.Streams, size.Events, byteCount(size.Bytes), byteCount(size.Overhead)))
	}
	size := func(n int64) string { return byteCount(n).String() }
	if f := s.SQLite; f != nil {
		t.row("file", fmt.Sprintf("%v, of which %v are free", byteCount(f.FileBytes), byteCount(f.FreeBytes)))
		t.row("journal", fmt.Sprintf("%d commits, %v", f.Commits, byteCount(f.JournalBytes)))
		t.row("log", size(f.WALBytes))
	}
	if r := s.Redis; r != nil {
		bound := "which has no bound"
		if r.MaxMemoryBytes > 0 {
			bound = "of " + size(r.MaxMemoryBytes)
		}
		t.row("servers", fmt.Sprint(r.Nodes))
		t.row("memory", size(r.MemoryBytes)+", "+bound)
		t.row("to expire", fmt.Sprintf("%d streams", r.Ends))
	}
	if p := s.Postgres; p != nil {
		t.row("batches", fmt.Sprintf("%v in %d partitions", byteCount(p.BatchBytes), p.Partitions))
		t.row("other tables", size(p.OtherBytes))
		t.row("marks", fmt.Sprint(p.Marks))
	}
	if n := s.NATS; n != nil {
		t.row("events", fmt.Sprintf("%d messages, %v, on %d servers", n.Messages, byteCount(n.Bytes), n.Replicas))
		t.row("index", fmt.Sprintf("%d messages, %v", n.IndexMessages, byteCount(n.IndexBytes)))
		t.row("marks", fmt.Sprint(n.Marks))
	}
	return t.flush()
}

// storeSweepCmd sweeps once.
type storeSweepCmd struct {
	storePlace `embed:""`

	Archive string `placeholder:"URL" help:"Archive them before, as \"serve --archive\" does. Default: nowhere."`
}

// Run sweeps.
func (c *storeSweepCmd) Run(ctx context.Context, asked *stops) error {
	if isArchive(cmp.Or(c.URL, c.Store)) {
		return usage("an archive is not swept")
	}
	return c.useLog(ctx, asked, func(ctx context.Context, store reprise.Store, log *reprise.Log) error {
		if c.Archive != "" {
			if err := archiveExpired(ctx, store, c.Archive); err != nil {
				return err
			}
		}
		swept, err := log.Sweep(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return printObject(map[string]int64{"streams": swept.Streams, "events": swept.Events, "bytes": swept.Bytes})
		}
		_, err = fmt.Fprintf(stdout, "removed %d streams with %d events, %v\n", swept.Streams, swept.Events,
			byteCount(swept.Bytes))
		return err
	})
}
