package redisstore_test

import (
	"fmt"
	"testing"

	"reprise"
	"reprise/internal/testserver"
	"reprise/redisstore"
	"reprise/storetest"
)

// A Redis Cluster of three keeps the whole contract.
func TestCluster(t *testing.T) {
	cluster := testserver.Cluster(t, 3)
	places := 0
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		places++
		url := fmt.Sprintf("%s?prefix=t%d", cluster.URL(), places)
		open := func() (reprise.Store, error) { return redisstore.Open(tb.Context(), url, nil) }
		return storetest.Harness{
			Persistent: true, Open: open, Share: open,
			Deafen: func(reprise.Store) error {
				for _, node := range cluster.Nodes {
					if _, err := node.Command("CLIENT", "KILL", "TYPE", "pubsub"); err != nil {
						return err
					}
				}
				return nil
			},
		}
	}, &storetest.Options{Events: 5_000, Streams: 500})
}
