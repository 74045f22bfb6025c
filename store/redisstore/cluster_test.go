package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// TestClusterFailoverLosesListEntries: the node with the lists is killed, and a replica of it that lags is promoted.
// Streams of the other nodes lose their list entries, and their numbers are given again. They are listed again, and the
// removal of one takes no other one out of the lists.
func TestClusterFailoverLosesListEntries(t *testing.T) {
	cluster := testserver.Cluster(t, 3)
	s := mustOpen(t, cluster.URL(), nil)
	create(t, s, "before")
	const number = "reprise:{reprise}:number"
	lists, _ := owner(t, cluster, number)
	replica := testserver.Redis(t, &testserver.RedisOptions{Cluster: true, Config: []string{
		"--cluster-replica-no-failover", "yes", // it is promoted by TAKEOVER only
	}})
	host, port, _ := strings.Cut(lists.Addr(), ":")
	command(t, replica, "CLUSTER", "MEET", host, port)
	id := command(t, lists, "CLUSTER", "MYID")
	until(t, "the replica knows the node", func() bool {
		reply, err := replica.Command("CLUSTER", "REPLICATE", id)
		return err == nil && reply == "OK"
	})
	until(t, "the replica is in sync", func() bool {
		return strings.Contains(command(t, replica, "INFO", "replication"), "master_link_status:up")
	})
	all := append([]*testserver.RedisServer{replica}, cluster.Nodes...)
	for _, node := range all {
		for _, other := range all {
			until(t, "the nodes know each other", func() bool {
				return strings.Contains(command(t, node, "CLUSTER", "NODES"), command(t, other, "CLUSTER", "MYID"))
			})
		}
	}
	for _, node := range all {
		command(t, node, "CONFIG", "SET", "cluster-node-timeout", "15000") // a busy one is not taken for a failed one
	}
	// From here on the replica gets nothing any more.
	command(t, lists, "ACL", "SETUSER", "default", "-psync", "-sync")
	command(t, lists, "CLIENT", "KILL", "TYPE", "replica")

	others := map[*testserver.RedisServer][]string{} // what the other nodes keep
	for i := 0; i < 20 || len(others) < 2; i++ {
		info := create(t, s, fmt.Sprint("lost/", i))
		at, _ := owner(t, cluster, "reprise:{"+info.Key.String()+"}:state")
		if at == lists {
			must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{}))
			continue
		}
		others[at] = append(others[at], info.Key.Name)
	}
	must(t, lists.Kill())
	until(t, "the replica is promoted", func() bool {
		_, _ = replica.Command("CLUSTER", "FAILOVER", "TAKEOVER") // a master refuses it
		return strings.Contains(command(t, replica, "INFO", "replication"), "role:master")
	})
	until(t, "the lists are back", func() bool {
		_, err := s.List(t.Context(), everything)
		return err == nil
	})
	after := "after" // it gets the number of the first lost stream
	until(t, "a stream is made", func() bool {
		_, err := s.Create(t.Context(), reprise.StreamInfo{
			Key:   reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: after},
			Epoch: reprise.NewEpoch(), Created: time.Now(),
		})
		return err == nil
	})
	if got := names(t, s); len(got) != 2 {
		t.Fatalf("listed: %q; nothing was lost: this tests nothing", got)
	}
	var want []string
	for _, lost := range others {
		want = append(want, lost[1:]...)
		until(t, "a lost stream is removed", func() bool {
			key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: lost[0]}
			err := s.Remove(t.Context(), key, reprise.RemoveSpec{})
			return err == nil || errors.Is(err, reprise.ErrNotFound)
		})
	}
	wantNames(t, s, after, "before")
	want = append(want, after, "before")
	slices.Sort(want)
	until(t, "the sizes count the lost streams", func() bool {
		sizes, err := s.Sizes(t.Context())
		return err == nil && sizes[reprise.DefaultTenant].Streams == int64(len(want))
	})
	got := names(t, s)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("listed: %q, want %q", got, want)
	}
}
