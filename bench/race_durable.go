package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/bench/limit"
)

const (
	durableFile   = "limit=file/size=200"
	durableOurs   = "store=sqlite/size=200"
	durableRows   = "limit=sqlite-rows/size=200/batch=100"
	durableLog    = "store=log/size=200"
	durablePebble = "peer=pebble/size=200"
)

// durableRace is P9 and P10, and Q4 for the embedded log: events that are acknowledged when they are on the disk, from
// so many writers, each of which writes to a stream of its own and waits for each event.
func durableRace(writers int) Race {
	race := Race{
		Name: fmt.Sprintf("Durable%d", writers),
		Contenders: []Contender{
			{durableFile, durableToFile(writers), false},
			{durableOurs, durableReprise(writers, openDisk), false},
			{durableLog, durableReprise(writers, openEmbeddedLog), false},
			{durablePebble, durablePeer("pebble", writers), false},
		},
	}
	atLeast := map[int]float64{1: 0.9, 8: 0.7, 64: 0.6, 512: 0.5}
	embedded := Row{
		Target: "Q4", What: fmt.Sprintf("durable append to the embedded log, %d writers", writers), Unit: "events/s",
		Ours: durableLog, Limit: durableFile, Peers: []string{durablePebble, durableOurs},
		First: Bound{Than: durableOurs, Least: 1}, Goal: Bound{Than: durableFile, Least: atLeast[writers]},
	}
	if times := map[int]float64{64: 1.3, 512: 2}[writers]; times > 0 {
		embedded.Goal.Also = &Bound{Than: durablePebble, Least: times}
	}
	if writers == 8 {
		race.Rows = []Row{embedded}
		return race
	}
	if writers == 1 {
		race.Rows = []Row{{
			Target: "P9", What: "durable append, 1 writer", Unit: "us/event", Ours: durableOurs, Limit: durableFile,
			First: Bound{Than: durableFile, Most: 1.6}, Goal: Bound{Than: durableFile, Most: 1.1},
		}, embedded}
		return race
	}
	goal := 0.8
	if writers > 64 {
		goal = 0.6
	}
	race.Contenders = append(race.Contenders, Contender{durableRows, durableToRows, false})
	race.Rows = []Row{{
		Target: "P10", What: fmt.Sprintf("durable append, %d writers", writers), Unit: "events/s",
		Ours: durableOurs, Limit: durableFile, Peers: []string{durableRows},
		First: Bound{Than: durableRows, Least: 1}, Goal: Bound{Than: durableFile, Least: goal},
	}, embedded}
	return race
}

// durableLap has the writers append for a while.
func durableLap(writers int, scale Scale, appendOne func(writer int) error) lapFunc {
	lasts := time.Duration(scale.Of(1000, 100)) * time.Millisecond
	return func(context.Context) (Sample, error) {
		var events atomic.Int64
		var failed atomic.Pointer[error]
		var all sync.WaitGroup
		start := time.Now()
		for w := range writers {
			all.Go(func() {
				for time.Since(start) < lasts {
					if err := appendOne(w); err != nil {
						failed.Store(&err)
						return
					}
					events.Add(1)
				}
			})
		}
		all.Wait()
		took := time.Since(start).Seconds()
		if err := failed.Load(); err != nil {
			return nil, *err
		}
		n := float64(events.Load())
		return Sample{"events/s": n / took, "us/event": took * 1e6 / n}, nil
	}
}

func durableToFile(writers int) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		dir, remove, err := tempDir()
		if err != nil {
			return nil, err
		}
		log, err := limit.CreateFileLog(filepath.Join(dir, "log"), 256<<20)
		if err != nil {
			return nil, err
		}
		payload := newPayload()
		return closing{durableLap(writers, scale, func(int) error { return log.Append(payload) }), func() error {
			_ = log.Close()
			return remove()
		}}, nil
	}
}

func durableReprise(writers int, open func(context.Context, string) (reprise.Store, error)) func(
	context.Context, Scale,
) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		dir, remove, err := tempDir()
		if err != nil {
			return nil, err
		}
		store, err := open(ctx, filepath.Join(dir, "events"))
		if err != nil {
			return nil, err
		}
		log, err := reprise.Open(ctx, store, nil)
		if err != nil {
			return nil, err
		}
		streams := make([]*reprise.Stream, writers)
		for i := range streams {
			key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: strconv.Itoa(i)}
			if streams[i], _, err = log.Create(ctx, key, reprise.StreamConfig{}); err != nil {
				return nil, err
			}
		}
		payload := newPayload()
		return closing{durableLap(writers, scale, func(w int) error {
			_, err := streams[w].Append(ctx, reprise.Event{Data: payload})
			return err
		}), func() error {
			_ = log.Close()
			_ = store.Close()
			return remove()
		}}, nil
	}
}

// durableToRows commits a hundred rows at a time, as fast as one connection can.
func durableToRows(_ context.Context, scale Scale) (Runner, error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	rows, err := limit.CreateRows(filepath.Join(dir, "rows.db"))
	if err != nil {
		return nil, err
	}
	payload := newPayload()
	commits := scale.Of(300, 20)
	var seq int64
	return closing{func(context.Context) (Sample, error) {
		start := time.Now()
		for range commits {
			seq++
			if err := rows.Append(seq, 100, payload); err != nil {
				return nil, err
			}
		}
		n := float64(commits) * 100
		took := time.Since(start).Seconds()
		return Sample{"events/s": n / took, "us/event": took * 1e6 / n}, nil
	}, func() error {
		_ = rows.Close()
		return remove()
	}}, nil
}
