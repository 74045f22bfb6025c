package redisstore_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
	"reprise/store/storetest"
)

// A Redis Cluster of three keeps the whole contract.
func TestClusterKeepsContract(t *testing.T) {
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
	t.Run("slot moves", func(t *testing.T) { slotMoves(t, cluster) })
	t.Run("wait", func(t *testing.T) {
		_, err := redisstore.Open(t.Context(), cluster.URL()+"?wait=1", nil)
		wantError(t, err, reprise.ErrInvalid)
	})
}

// slotMoves moves the slot of a stream to another node while it is appended to and watched.
func slotMoves(t *testing.T, cluster *testserver.RedisCluster) {
	s, other := mustOpen(t, cluster.URL()+"?prefix=moves", nil), mustOpen(t, cluster.URL()+"?prefix=moves", nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 10)
	var moved atomic.Int64
	stop, err := other.Watch(info.Key, func() { moved.Add(1) })
	must(t, err)
	defer stop()
	until(t, "it listens", func() bool { return moved.Load() > 0 })

	state := "moves:{" + info.Key.String() + "}:state"
	slot := command(t, cluster.Nodes[0], "CLUSTER", "KEYSLOT", state)
	from, to := owner(t, cluster, state)
	id := func(node *testserver.RedisServer) string { return command(t, node, "CLUSTER", "MYID") }
	command(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	command(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	host, port, _ := strings.Cut(to.Addr(), ":")
	keys := strings.Fields(command(t, from, "CLUSTER", "GETKEYSINSLOT", slot, "100"))
	command(t, from, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
	for _, node := range []*testserver.RedisServer{to, from} {
		command(t, node, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}

	before := moved.Load()
	until(t, "appends go on", func() bool { return tryOne(t, s, &info, "event") == nil })
	until(t, "it is told", func() bool { return moved.Load() > before })
	if page := read(t, other, info.Key); page.Info.Epoch != info.Epoch || page.Info.Tail != 11 ||
		len(page.Batches) != 11 {
		t.Errorf("after the move: %+v", page.Info)
	}
	before = moved.Load()
	until(t, "it hears the node that has the slot now", func() bool {
		must(t, tryOne(t, s, &info, "event"))
		return moved.Load() > before+3
	})
}

// owner is the node that has a key, and another one.
func owner(t *testing.T, cluster *testserver.RedisCluster, key string) (has, other *testserver.RedisServer) {
	t.Helper()
	for _, node := range cluster.Nodes {
		if reply, err := node.Command("EXISTS", key); err == nil && reply == "1" {
			has = node
		} else {
			other = node
		}
	}
	if has == nil {
		t.Fatalf("no node has %s", key)
	}
	return has, other
}
