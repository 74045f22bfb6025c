package node

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/replica"
)

// errOtherKeys: the replicas of a store do not trust each other's cursors.
var errOtherKeys = errors.New("the keys of this server are not those of the other replicas of its store: " +
	"give it their files \"keys\" and \"token\", with --secrets DIR or by copying them into its data directory")

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
