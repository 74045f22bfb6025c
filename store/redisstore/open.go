package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"reprise"
)

// connect creates the client. The driver applies its own timeout; ctx ends the wait.
func connect(ctx context.Context, driver rueidis.ClientOption) (rueidis.Client, error) {
	type made struct {
		client rueidis.Client
		err    error
	}
	result := make(chan made, 1)
	go func() {
		client, err := rueidis.NewClient(driver)
		if err != nil {
			result <- made{nil, err}
			return
		}
		result <- made{pinnedClient{client}, nil}
	}()
	select {
	case m := <-result:
		return m.client, m.err
	case <-ctx.Done():
		go func() {
			if m := <-result; m.client != nil {
				m.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// openError describes why Open failed. An error that the server returns is permanent unless the server is still
// starting.
func openError(ctx context.Context, driver rueidis.ClientOption, err error) error {
	where := strings.Join(driver.InitAddress, ", ")
	refusal, refused := rueidis.IsRedisErr(err)
	switch {
	case errors.Is(err, reprise.ErrInvalid):
		return fmt.Errorf("redis at %s: %w", where, err)
	case refused && !refusal.IsLoading() && !refusal.IsClusterDown() && !refusal.IsTryAgain():
		return fmt.Errorf("%w: redis at %s refuses: %w", reprise.ErrInvalid, where, err)
	}
	return fmt.Errorf("redis at %s: %w", where, storeError(ctx, err))
}

// oldest is the first supported major version of Redis. Older ones have no script flags and no sharded channels.
const oldest = 7

// inspect verifies that the server can be used, and finds out which events it may lose.
func (s *Store) inspect(ctx context.Context) error {
	text, err := s.client.Do(ctx, s.client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return err
	}
	info := parseInfo(text)
	if major, err := strconv.Atoi(strings.SplitN(info["redis_version"], ".", 2)[0]); err != nil || major < oldest {
		return fmt.Errorf("%w: version %q, %d.0 or newer is needed", reprise.ErrInvalid, info["redis_version"], oldest)
	}
	s.cluster, s.valkey = isCluster(info), info["valkey_version"] != ""
	if s.cluster && s.opts.Wait > 0 {
		return fmt.Errorf("%w: wait is not for a cluster", reprise.ErrInvalid)
	}
	// A user who may not run these scripts gets the error from Open.
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "x"}
	for _, sc := range []*script{readScript, createScript} {
		c := call{keys: []string{s.keys.state(key), s.keys.batches(key)}, args: []string{"0", "0"}[:1]}
		if sc.reads {
			c.args = []string{"0", "0"}
		}
		if err := s.run(ctx, sc, 0, c)[0].Error(); err != nil {
			return err
		}
	}
	return s.warn(ctx)
}

// warn logs what the servers may lose.
func (s *Store) warn(ctx context.Context) error {
	log := s.opts.Logger
	all, err := s.settings(ctx)
	if err != nil {
		return err
	}
	for addr, settings := range all {
		switch {
		case settings == nil:
			log.Info("redis does not report its settings: what a crash may lose is unknown", "server", addr)
			continue
		case settings["appendonly"] != "yes":
			log.Warn("redis has no append-only file: a crash of the server loses acknowledged events",
				"server", addr)
		case settings["appendfsync"] == "no" || settings["no-appendfsync-on-rewrite"] == "yes":
			log.Warn("redis does not sync its append-only file: a crash of the machine loses acknowledged events",
				"server", addr)
		case settings["appendfsync"] == "everysec":
			log.Info("redis syncs its append-only file every second: a crash of the machine loses events acknowledged since",
				"server", addr)
		}
		if policy := settings["maxmemory-policy"]; strings.HasPrefix(policy, "allkeys-") {
			log.Warn("redis may evict streams when its memory is full", "server", addr, "maxmemory-policy", policy)
		}
	}
	return nil
}

// settings reads the relevant settings of each server. They are nil for a server that refuses to return them.
func (s *Store) settings(ctx context.Context) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for addr, node := range s.client.Nodes() {
		command := node.B().ConfigGet().Parameter("appendonly", "appendfsync", "no-appendfsync-on-rewrite",
			"maxmemory-policy").Build()
		settings, err := node.Do(ctx, command.ToRetryable()).AsStrMap()
		if refusal, refused := rueidis.IsRedisErr(err); err != nil && (!refused || refusal.IsLoading()) {
			return nil, err
		}
		if err != nil {
			settings = nil
		}
		all[addr] = settings
	}
	return all, nil
}

// restartKeeps reports whether a restart of the server preserves everything that was acknowledged.
func (s *Store) restartKeeps(ctx context.Context) (bool, error) {
	if s.opts.Restart != RestartAuto {
		return s.opts.Restart == RestartKeeps, nil
	}
	all, err := s.settings(ctx)
	for _, settings := range all {
		if settings["appendonly"] != "yes" || settings["appendfsync"] != "always" ||
			settings["no-appendfsync-on-rewrite"] == "yes" {
			return false, err
		}
	}
	return err == nil && len(all) > 0, err
}

// isCluster reports whether the section "server" of INFO comes from a member of a cluster. Valkey calls the mode by
// another name.
func isCluster(info map[string]string) bool {
	return cmp.Or(info["redis_mode"], info["server_mode"]) == "cluster"
}

// parseInfo parses the answer of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}
