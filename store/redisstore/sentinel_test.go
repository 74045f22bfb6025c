package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/testserver"
)

// Sentinel promotes the replica of a server that was killed. The store follows by itself, and its streams go on under
// another epoch.
func TestSentinelPromotionChangesEpoch(t *testing.T) {
	primary, replica := pair(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	sentinel := testserver.Redis(t, &testserver.RedisOptions{Sentinel: []string{
		fmt.Sprintf("sentinel monitor mymaster %s %s 1", host, port),
		"sentinel down-after-milliseconds mymaster 300",
		"sentinel failover-timeout mymaster 3000",
	}})
	until(t, "sentinel knows the replica", func() bool {
		return strings.Contains(command(t, sentinel, "SENTINEL", "replicas", "mymaster"), replica.Addr())
	})
	s := mustOpen(t, sentinel.URL()+"?master_set=mymaster&timeout=2s", nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 10)
	until(t, "the replica has all", func() bool {
		return field(command(t, replica, "INFO", "replication"), "slave_repl_offset") ==
			field(command(t, primary, "INFO", "replication"), "master_repl_offset")
	})
	must(t, primary.Kill())
	var err error
	until(t, "the store has found the new master", func() bool {
		err = tryOne(t, s, &info, "event")
		return !isUnavailable(err)
	})
	if !errors.Is(err, reprise.ErrNotFound) {
		t.Fatalf("after the failover: %v", err)
	}
	goesOnInAnotherEpoch(t, s, &info, 10)
}
