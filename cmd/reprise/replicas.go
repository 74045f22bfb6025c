package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"reprise"
	"reprise/internal/roster"
	"reprise/replica"
)

// errOtherKeys: the replicas of a store do not trust each other's cursors.
var errOtherKeys = errors.New("the keys of this server are not those of the other replicas of its store: " +
	"give it their files \"keys\" and \"token\", with --secrets DIR or by copying them into its data directory")

// join makes the server a replica of those that use the same store. It does nothing where there can be no others.
func (s *server) join(ctx context.Context, c *serveCmd, keys *reprise.Keyset) error {
	if !s.log.Shared() {
		return nil
	}
	if err := agreeOnKeys(ctx, s.log, keys); err != nil {
		return err
	}
	var err error
	s.member, err = replica.Join(ctx, s.log, &replica.Options{Name: c.replicaName(), Logger: s.logger})
	return err
}

// agreeOnKeys makes sure that the replicas of a store sign with the same keys, for a client that comes from another
// one would be sent away as a forger otherwise. The first one leaves a signature in the store, which
// the others must be able to verify. Keys that have replaced others leave another one.
func agreeOnKeys(ctx context.Context, log *reprise.Log, keys *reprise.Keyset) error {
	const label = "reprise replicas 1"
	name := reprise.StreamKey{Tenant: replica.Tenant, Name: "keys"}
	config := reprise.StreamConfig{Meta: []byte(keys.Sign(label))}
	for range 5 { // another replica may do the same at the same time
		_, _, err := log.Create(ctx, name, config)
		if !errors.Is(err, reprise.ErrConflict) {
			return err
		}
		stream, err := log.Stream(ctx, name)
		if errors.Is(err, reprise.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx)
		switch {
		case errors.Is(err, reprise.ErrNotFound):
			continue
		case err != nil:
			return err
		case !keys.Verify(string(info.Config.Meta), label):
			return errOtherKeys
		}
		if err := log.Remove(ctx, name); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the replicas keep replacing each other's keys", errOtherKeys)
}

// openRoster begins to tell the other replicas what this server does.
func (s *server) openRoster(c *serveCmd) {
	host, log := s.host, s.log // a late call must not see them go
	about := roster.About{URL: s.front.url(), Version: buildVersion(), Started: time.Now()}
	s.roster = roster.New(roster.Options{
		Replica: s.member, Name: c.replicaName(), Logger: s.logger,
		About: func() roster.About {
			now, counts := about, host.Counts()
			now.Running, now.Queued, now.Streams = counts.Running, counts.Queued, log.Memory().Streams
			return now
		},
	})
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// maxReplicaName is the most bytes that package replica takes.
const maxReplicaName = 48

// replicaName begins the name by which other replicas and logs know this server.
func (c *serveCmd) replicaName() string {
	name := c.Replica
	if name == "" {
		name, _ = os.Hostname()
	}
	name = notInNames.ReplaceAllString(name, "-")
	return name[:min(len(name), maxReplicaName)]
}
