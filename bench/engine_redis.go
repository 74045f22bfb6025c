package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"reprise/internal/testserver"
)

// dialRedis makes a client that keeps nothing on its side.
func dialRedis(server string) (rueidis.Client, error) {
	option, err := rueidis.ParseURL(server)
	if err != nil {
		return nil, err
	}
	option.DisableCache, option.ForceSingleClient = true, true
	return rueidis.NewClient(option)
}

// redisBenchmark is the program that comes with Redis, over as many connections as there are appenders.
func redisBenchmark(pipeline int) func(context.Context, Scale, string) (Runner, error) {
	return func(_ context.Context, scale Scale, server string) (Runner, error) {
		program, err := exec.LookPath("redis-benchmark")
		if err != nil {
			return nil, fmt.Errorf("%w: redis-benchmark", testserver.ErrMissing)
		}
		u, err := url.Parse(server)
		if err != nil {
			return nil, err
		}
		client, err := dialRedis(server)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprint("xadd", pipeline)
		args := []string{
			"-h", u.Hostname(), "-p", u.Port(), "-c", strconv.Itoa(engineAppenders), "-P", strconv.Itoa(pipeline),
			"-n", strconv.Itoa(scale.Of(30_000*(pipeline+1), 1000*pipeline)), "--csv", "XADD", key, "*", "b",
			string(newPayload()),
		}
		return closing{func(ctx context.Context) (Sample, error) {
			out, err := exec.CommandContext(ctx, program, args...).Output()
			if err != nil {
				return nil, err
			}
			rate, err := benchmarkRate(string(out))
			return Sample{"events/s": rate},
				errors.Join(err, client.Do(ctx, client.B().Unlink().Key(key).Build()).Error())
		}, func() error { client.Close(); return nil }}, nil
	}
}

// benchmarkRate is what redis-benchmark says in its column "rps", the second one.
func benchmarkRate(text string) (float64, error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 2 {
		return 0, fmt.Errorf("redis-benchmark printed %q: %w", text, err)
	}
	return strconv.ParseFloat(rows[1][1], 64)
}

// redisRange reads entries of one event each.
func redisRange(ctx context.Context, scale Scale, server string) (Runner, error) {
	const key, most = "entries", 1000
	client, err := dialRedis(server)
	if err != nil {
		return nil, err
	}
	events, payload := engineHistory(scale), string(newPayload())
	for i := 0; i < events; i += 100 {
		var commands rueidis.Commands
		for range 100 {
			commands = append(commands,
				client.B().Xadd().Key(key).Id("*").FieldValue().FieldValue("b", payload).Build())
		}
		for _, result := range client.DoMulti(ctx, commands...) {
			if err := result.Error(); err != nil {
				client.Close()
				return nil, err
			}
		}
	}
	return closing{replayLap(events, func(ctx context.Context) (n int, err error) {
		for from := "-"; ; {
			entries, err := client.Do(ctx,
				client.B().Xrange().Key(key).Start(from).End("+").Count(most).Build()).AsXRange()
			if err != nil || len(entries) == 0 {
				return n, err
			}
			n += len(entries)
			from = "(" + entries[len(entries)-1].ID
		}
	}), func() error { client.Close(); return nil }}, nil
}

// redisWake writes an entry and publishes a message, in one go, to another connection.
func redisWake(ctx context.Context, scale Scale, server string) (Runner, error) {
	from, err := dialRedis(server)
	if err != nil {
		return nil, err
	}
	to, err := dialRedis(server)
	if err != nil {
		from.Close()
		return nil, err
	}
	ears, release := to.Dedicate()
	closeAll := func() error { release(); to.Close(); from.Close(); return nil }
	heard := make(chan time.Time, 1)
	ears.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) { heard <- time.Now() }})
	if err := ears.Do(ctx, ears.B().Subscribe().Channel("wake").Build()).Error(); err != nil {
		return nil, errors.Join(err, closeAll())
	}
	payload := string(newPayload())
	return closing{wakeLap(scale, heard, func(ctx context.Context) (time.Time, error) {
		for _, result := range from.DoMulti(
			ctx,
			from.B().Xadd().Key("woken").Id("*").FieldValue().FieldValue("b", payload).Build(),
			from.B().Publish().Channel("wake").Message("m").Build(),
		) {
			if err := result.Error(); err != nil {
				return time.Time{}, err
			}
		}
		return time.Time{}, nil
	}), closeAll}, nil
}
