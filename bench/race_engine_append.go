package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"reprise"
)

// engineAppenders is how many append at once to an engine; each waits for its events.
const engineAppenders = 100

// redisAppendRace is E1: as many events as redis-benchmark reaches XADD commands, on a server that either keeps
// everything in memory or syncs each write.
func redisAppendRace(synced bool) Race {
	const manyAtOnce, oneAtOnce = "limit=redis-benchmark-XADD/pipeline=16", "limit=redis-benchmark-XADD/pipeline=1"
	name, how, e := "EngineRedisAppend", "in memory", redisEngine("--appendonly", "no")
	if synced {
		name, how, e = "EngineRedisAppendSynced", "synced", redisEngine()
	}
	r := Race{Name: name, Contenders: []Contender{
		e.contender(manyAtOnce, redisBenchmark(16)),
		e.contender(oneAtOnce, redisBenchmark(1)),
	}}
	r.add(e, 16, Row{Target: "E1", What: "Redis " + how, Limit: manyAtOnce, First: Bound{Than: manyAtOnce, Least: 1}})
	r.add(e, 1, Row{Target: "E1", What: "Redis " + how, Limit: oneAtOnce})
	return r
}

// postgresAppendRace is E2: half of what COPY reaches with the same events, a row each. The peers commit 50 and
// 5,000 events at once, which are half of those that the appenders have.
func postgresAppendRace() Race {
	const limit, few, many = "limit=copy", "peer=copy/commit=50", "peer=copy/commit=5000"
	e := postgresEngine()
	r := Race{Name: "EnginePostgresAppend", Contenders: []Contender{
		e.contender(limit, postgresCopy("bare", 1, 200_000)),
		e.contender(few, postgresCopy("few", 500, 50)),
		e.contender(many, postgresCopy("many", 60, 5000)),
	}}
	bound := Bound{Than: limit, Least: 0.5}
	r.add(e, 1, Row{Target: "E2", What: "PostgreSQL", Limit: limit, Peers: []string{few}, First: bound})
	r.add(e, 100, Row{Target: "E2", What: "PostgreSQL", Limit: limit, Peers: []string{many}, First: bound})
	return r
}

// natsAppendRace is E3: half of what comes of publishing as many bytes in messages without waiting for each. The
// peer waits as a commit does, and has the server compare what it writes with what is there.
func natsAppendRace() Race {
	const many, one = "limit=publish-async/batch=100", "limit=publish-async/batch=1"
	const conditional = "peer=publish-conditional/batch=100"
	e := natsEngine()
	r := Race{Name: "EngineNATSAppend", Contenders: []Contender{
		e.contender(many, natsPublish("MANY", 100)),
		e.contender(one, natsPublish("ONE", 1)),
		e.contender(conditional, natsConditional),
	}}
	r.add(e, 100, Row{
		Target: "E3", What: "NATS", Limit: many, Peers: []string{conditional}, First: Bound{Than: many, Least: 0.5},
	})
	r.add(e, 1, Row{Target: "E3", What: "NATS", Limit: one})
	return r
}

// add adds contenders that append so many events at a time, to a stream each and to one stream, and a row like that
// given for each of the two.
func (r *Race) add(e *engine, batch int, row Row) {
	what := row.What
	for _, streams := range []int{engineAppenders, 1} {
		row.Ours = fmt.Sprintf("store=%s/streams=%d/batch=%d", e.name, streams, batch)
		row.Unit = "events/s"
		row.What = fmt.Sprintf("%s, %d appenders, streams: %d, at a time: %d", what, engineAppenders, streams, batch)
		r.Contenders = append(r.Contenders, e.contender(row.Ours, engineAppend(e, streams, batch)))
		r.Rows = append(r.Rows, row)
	}
}

// engineAppend has the appenders append so many events at a time to so many streams.
func engineAppend(e *engine, streams, batch int) func(context.Context, Scale, string) (Runner, error) {
	return func(ctx context.Context, scale Scale, url string) (Runner, error) {
		log, closeLog, err := e.openLog(ctx, url)
		if err != nil {
			return nil, err
		}
		handles := make([]*reprise.Stream, streams)
		for i := range handles {
			key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprintf("%d/%d/%d", streams, batch, i)}
			if handles[i], _, err = log.Create(ctx, key, reprise.StreamConfig{}); err != nil {
				_ = closeLog()
				return nil, err
			}
		}
		events := make([]reprise.Event, batch)
		for i := range events {
			events[i].Data = newPayload()
		}
		var appended atomic.Int64
		lap := durableLap(engineAppenders, scale, func(appender int) error {
			_, err := handles[appender%streams].Append(ctx, events...)
			appended.Add(int64(batch))
			return err
		})
		return closing{func(ctx context.Context) (Sample, error) {
			sample, err := lap(ctx)
			if err != nil {
				return nil, err
			}
			n := float64(batch)
			return Sample{"events/s": sample["events/s"] * n, "us/event": sample["us/event"] / n},
				allThere(ctx, handles, appended.Load())
		}, closeLog}, nil
	}
}

// allThere is an error if the streams have not got so many events between them.
func allThere(ctx context.Context, streams []*reprise.Stream, events int64) error {
	for _, s := range streams {
		info, err := s.Info(ctx)
		if err != nil {
			return err
		}
		events -= int64(info.Tail)
	}
	if events != 0 {
		return fmt.Errorf("%w: %d of those that were acknowledged", errLost, events)
	}
	return nil
}
