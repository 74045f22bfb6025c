package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/bytesize"
	"reprise/internal/storeurl"
	"reprise/internal/upkeep"
)

// storeCmd looks at a store or tidies it, in the place of a server or while one uses it.
type storeCmd struct {
	Stats storeStatsCmd `cmd:"" help:"Print what each tenant keeps."`
	Sweep storeSweepCmd `cmd:"" help:"Remove expired streams now. A server does so by itself."`
	Check storeCheckCmd `cmd:"" help:"Read everything and report what is damaged."`
	Copy  storeCopyCmd  `cmd:"" help:"Copy all streams to another store, where their cursors stay valid."`
	Move  storeMoveCmd  `cmd:"" help:"Move the store of a data directory from SQLite to the log, or back."`

	Export storeExportCmd `cmd:"" help:"Write what a store holds as lines of JSON."`

	Retire storeRetireCmd `cmd:"" help:"Remove an old key from an encrypted store, so that it opens without the key."`

	Archive storeArchiveCmd `cmd:"" help:"Archive streams that have ended to files, a bucket or a topic."`
}

// storePlace says which store.
type storePlace struct {
	storeKeys `embed:""`
	Server    connect `embed:""`

	Place storeURL `arg:"" optional:"" name:"store-url" help:"The store: a URL, or @FILE for a file with the URL. Default: --store."`
	Data  string   `placeholder:"DIR" help:"Data directory of the server. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store storeURL `placeholder:"URL" help:"Store of the server; @FILE reads the URL from a file. Default: what is in the data directory."`
	JSON  bool     `name:"json" help:"Print lines of JSON."`

	unchecked bool // see storeurl.Options.Unchecked
}

// url is the URL of the store.
func (p *storePlace) url() string { return cmp.Or(p.Place.url, p.Store.in(p.dataDir()).url) }

// use opens the store that is there already, for as long as do takes.
func (p *storePlace) use(ctx context.Context, asked *stops, do func(context.Context, reprise.Store) error) error {
	ctx, release := asked.context(ctx)
	defer release()
	data := p.dataDir()
	place, err := openPlaceWith(ctx, p.url(), data,
		&storeurl.Options{Keys: p.file(data), Unchecked: p.unchecked}, true)
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

	Advise bool `help:"Print how fast the store fills, and how much of that its bounds keep. This lists all streams."`
}

// Run prints them.
func (c *storeStatsCmd) Run(ctx context.Context, asked *stops) error {
	return c.askOr(ctx, asked, func(ctx context.Context, server *client.Client) error {
		query := url.Values{}
		if c.Advise {
			query.Set("advise", "true")
		}
		answer, err := server.Do(ctx, http.MethodGet, "/v1/store", query)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		var stats upkeep.Stats
		if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
			return fmt.Errorf("read the size of the store: %w", err)
		}
		return c.print(&stats)
	}, func() error {
		return c.useLog(ctx, asked, func(ctx context.Context, store reprise.Store, log *reprise.Log) error {
			dir := ""
			if c.Place.url == "" {
				dir = c.dataDir()
			}
			stats, err := upkeep.Measure(ctx, log, store, dir)
			if err == nil && c.Advise {
				stats.Advice, err = upkeep.Advise(ctx, log, stats.Tenants, time.Now())
			}
			if err != nil {
				return err
			}
			return c.print(&stats)
		})
	})
}

func (c *storeStatsCmd) print(s *upkeep.Stats) error {
	if c.JSON {
		return printObject(s)
	}
	t := newTable(stdout)
	for _, tenant := range slices.Sorted(maps.Keys(s.Tenants)) {
		size := s.Tenants[tenant]
		t.row("tenant "+string(tenant),
			fmt.Sprintf("%d streams, %d events, %v, and %v beside them",
				size.Streams, size.Events, bytesize.Size(size.Bytes), bytesize.Size(size.Overhead)))
	}
	size := func(n int64) string { return bytesize.Size(n).String() }
	if f := s.SQLite; f != nil {
		t.row("file", fmt.Sprintf("%v, and %v of write-ahead log; of both %v are free",
			bytesize.Size(f.FileBytes), bytesize.Size(f.WALBytes), bytesize.Size(f.FreeBytes)))
		t.row("journal", fmt.Sprintf("%d commits, %v", f.Commits, bytesize.Size(f.JournalBytes)))
	}
	if l := s.Log; l != nil {
		t.row("log", fmt.Sprintf("%v in %d files, of which %v are kept",
			bytesize.Size(l.LogBytes), l.Segments, bytesize.Size(l.LiveBytes)))
		t.row("snapshot", size(l.SnapshotBytes))
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
		t.row("batches", fmt.Sprintf("%v in %d partitions", bytesize.Size(p.BatchBytes), p.Partitions))
		t.row("other tables", size(p.OtherBytes))
		t.row("marks", fmt.Sprint(p.Marks))
	}
	if n := s.NATS; n != nil {
		t.row("events", fmt.Sprintf("%d messages, %v, on %d servers", n.Messages, bytesize.Size(n.Bytes), n.Replicas))
		t.row("index", fmt.Sprintf("%d messages, %v", n.IndexMessages, bytesize.Size(n.IndexBytes)))
		t.row("marks", fmt.Sprint(n.Marks))
	}
	if s.DiskFree != nil {
		t.row("disk", size(int64(*s.DiskFree))+" are free")
	}
	if s.Advice != nil {
		adviceRows(t, s.Advice)
	}
	return t.flush()
}

// storeSweepCmd sweeps once.
type storeSweepCmd struct {
	storePlace `embed:""`
	quietly    `embed:""`

	Archive string `placeholder:"URL" help:"Archive them first, as \"serve --archive\" does. Default: nowhere."`
}

// Run sweeps.
func (c *storeSweepCmd) Run(ctx context.Context, asked *stops) error {
	if isArchive(cmp.Or(c.Place.url, c.Store.url)) {
		return usage("an archive is not swept")
	}
	return c.askOr(ctx, asked, func(ctx context.Context, server *client.Client) error {
		if c.Archive != "" {
			return usage("--archive: the server that uses the store archives what it sweeps, if it was started with --archive")
		}
		swept, err := server.SweepStore(ctx)
		if err != nil {
			return err
		}
		return c.print(swept)
	}, func() error {
		return c.useLog(ctx, asked, func(ctx context.Context, store reprise.Store, log *reprise.Log) error {
			if c.Archive != "" {
				if err := archiveExpired(ctx, store, c.Archive); err != nil {
					return err
				}
			}
			result, err := log.Sweep(ctx)
			if err != nil {
				return err
			}
			return c.print(client.Swept(result))
		})
	})
}

func (c *storeSweepCmd) print(s client.Swept) error {
	if c.JSON {
		return printObject(s)
	}
	if s.Idle > 0 {
		if err := c.sayResult("ended %d idle streams\n", s.Idle); err != nil {
			return err
		}
	}
	return c.sayResult("removed %d streams with %d events, %v\n", s.Streams, s.Events, bytesize.Size(s.Bytes))
}
