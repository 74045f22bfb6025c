package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
)

// names lists all streams, the newest first.
func names(t *testing.T, s *redisstore.Store) (all []string) {
	t.Helper()
	page, err := s.List(t.Context(), everything)
	must(t, err)
	for i := range page.Streams {
		all = append(all, page.Streams[i].Key.Name)
	}
	return all
}

func wantNames(t *testing.T, s *redisstore.Store, want ...string) {
	t.Helper()
	if got := names(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("listed: %q, want %q", got, want)
	}
}

// loseEntries takes the lists back to the time when the last number was the given one, as the promotion of a replica
// that lags does, while the streams are on servers that have lost nothing.
func loseEntries(t *testing.T, on *testserver.RedisServer, number int) {
	t.Helper()
	command(t, on, "SET", "reprise:{reprise}:number", fmt.Sprint(number))
	for list := range strings.FieldsSeq(command(t, on, "KEYS", "reprise:{reprise}:list*")) {
		command(t, on, "ZREMRANGEBYSCORE", list, fmt.Sprint("(", number), "+inf")
	}
}

// TestRemovalLeavesStreamOfSameNumberListed: after a failover two streams have the same number. The removal of one of
// them, and its expiry, leaves the other in the lists.
func TestRemovalLeavesStreamOfSameNumberListed(t *testing.T) {
	on := testserver.Redis(t, nil)
	s := mustOpen(t, on.URL(), nil)
	create(t, s, "first")
	removed, expired := create(t, s, "removed"), create(t, s, "expired")
	loseEntries(t, on, 1)
	create(t, s, "second")
	create(t, s, "third")
	wantNames(t, s, "third", "second", "first")

	must(t, s.Remove(t.Context(), removed.Key, reprise.RemoveSpec{}))
	wantNames(t, s, "third", "second", "first")
	req := one(&expired, []byte("end"))
	req.End = &reprise.End{Outcome: "completed", Time: time.Now(), Expires: time.Now().Add(-time.Second)}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs)
	}
	swept, err := s.Sweep(t.Context(), time.Now(), time.Now().Add(time.Hour), 10)
	if err != nil || len(swept) != 1 {
		t.Fatalf("swept: %+v, %v", swept, err)
	}
	wantNames(t, s, "third", "second", "first")
}

// TestStreamsInNoListAreListedAgain: a search finds streams whose list entries a failover has lost. One whose number
// was given again becomes the newest, and the others come back to where they were.
func TestStreamsInNoListAreListedAgain(t *testing.T) {
	on := testserver.Redis(t, nil)
	s := mustOpen(t, on.URL(), nil)
	create(t, s, "a")
	create(t, s, "b")
	create(t, s, "c")
	gone := create(t, s, "gone")
	must(t, s.Remove(t.Context(), gone.Key, reprise.RemoveSpec{Remember: time.Now().Add(time.Hour)}))
	loseEntries(t, on, 1)
	create(t, s, "d")
	wantNames(t, s, "d", "a")
	must(t, s.Relist(t.Context()))
	sizes, err := s.Sizes(t.Context())
	must(t, err)
	if size := sizes[reprise.DefaultTenant]; size.Streams != 4 {
		t.Errorf("%d streams, want 4", size.Streams)
	}
	switch got := fmt.Sprint(names(t, s)); got {
	// b had the number of d, and c comes back before b is given another one, or after.
	case "[b c d a]", "[c b d a]":
	default:
		t.Errorf("listed: %s", got)
	}
	create(t, s, "e")
	if got := names(t, s); got[0] != "e" || len(got) != 5 {
		t.Errorf("listed: %q, want e to be the newest", got)
	}
	for _, list := range []string{"list", "list:t=default", "list:n=", "list:t=default:n="} {
		if got := command(t, on, "ZCARD", "reprise:{reprise}:"+list); got != "5" {
			t.Errorf("%s has %s entries, want 5", list, got)
		}
	}
	oneStreamANumber(t, on)
	for name, key := range map[string]string{"b": "default/b", "c": "default/c"} {
		is := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
		must(t, s.Remove(t.Context(), is, reprise.RemoveSpec{}))
		for member := range strings.FieldsSeq(command(t, on, "ZRANGE", "reprise:{reprise}:list", "0", "-1")) {
			if strings.HasSuffix(member, ":"+key) {
				t.Errorf("%s was removed, and the list has %s", key, member)
			}
		}
	}
}

// TestStreamsInNoListKeepFreeNumbers: streams whose numbers were not given again come back in their order, and no later
// stream gets one of those numbers.
func TestStreamsInNoListKeepFreeNumbers(t *testing.T) {
	on := testserver.Redis(t, nil)
	s := mustOpen(t, on.URL(), nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		create(t, s, name)
	}
	loseEntries(t, on, 1)
	must(t, s.Relist(t.Context()))
	wantNames(t, s, "d", "c", "b", "a")
	create(t, s, "e")
	wantNames(t, s, "e", "d", "c", "b", "a")
	oneStreamANumber(t, on)
}

// oneStreamANumber checks that no two streams in a list have the same number: a page that ends between them would leave
// one out.
func oneStreamANumber(t *testing.T, on *testserver.RedisServer) {
	t.Helper()
	seen := map[string]bool{}
	for member := range strings.FieldsSeq(command(t, on, "ZRANGE", "reprise:{reprise}:list", "0", "-1")) {
		number, _, _ := strings.Cut(member, ":")
		if seen[number] {
			t.Errorf("two streams have the number %s", number)
		}
		seen[number] = true
	}
}

// TestSearchEndsWithTheHistory: a server is searched until a minute after its history began, and again once it has
// another one.
func TestSearchEndsWithTheHistory(t *testing.T) {
	on := testserver.Redis(t, nil)
	s := mustOpen(t, on.URL(), nil)
	create(t, s, "s")
	scans := func() string {
		return field(command(t, on, "INFO", "commandstats"), "cmdstat_scan")
	}
	searches := func() bool {
		before := scans()
		must(t, s.Relist(t.Context()))
		return scans() != before
	}
	for range 2 {
		if !searches() {
			t.Fatal("a server whose history has just begun is not searched")
		}
	}
	id := field(command(t, on, "INFO", "replication"), "master_replid")
	long := time.Now().Add(-time.Hour).UnixMilli()
	command(t, on, "HSET", "reprise:{reprise}:histories", id, fmt.Sprint(long), "another", "0")
	if !searches() {
		t.Fatal("there is no final search")
	}
	if searches() {
		t.Error("the server is searched after the final search")
	}
	if left := command(t, on, "HGETALL", "reprise:{reprise}:histories"); left != id+"\n0" {
		t.Errorf("the histories are %q", left)
	}
	restart(t, on, s)
	if !searches() {
		t.Error("a server that was started again is not searched")
	}
}

// TestSizesOfServerThatRefusesSearch: the sizes are those of the listed streams where SCAN or writes are refused.
func TestSizesOfServerThatRefusesSearch(t *testing.T) {
	for _, config := range [][]string{
		{"--rename-command", "SCAN", ""},
		{"--min-replicas-to-write", "0"},
	} {
		t.Run(config[0], func(t *testing.T) {
			on := testserver.Redis(t, &testserver.RedisOptions{Config: config})
			s := mustOpen(t, on.URL(), nil)
			create(t, s, "s")
			if config[1] == "0" {
				command(t, on, "CONFIG", "SET", "min-replicas-to-write", "1")
			}
			if err := s.Relist(t.Context()); (err != nil) != (config[1] == "0") {
				t.Errorf("the search: %v", err)
			}
			for range 2 {
				sizes, err := s.Sizes(t.Context())
				must(t, err)
				if size := sizes[reprise.DefaultTenant]; size.Streams != 1 {
					t.Errorf("%d streams, want 1", size.Streams)
				}
			}
		})
	}
}

// TestSizesStartsSearch: Sizes starts a search and needs no other call for it.
func TestSizesStartsSearch(t *testing.T) {
	on := testserver.Redis(t, nil)
	s := mustOpen(t, on.URL(), nil)
	create(t, s, "a")
	create(t, s, "b")
	loseEntries(t, on, 1)
	_, err := s.Sizes(t.Context())
	must(t, err)
	until(t, "b is listed again", func() bool { return fmt.Sprint(names(t, s)) == "[b a]" })
}

// TestSizesWhileSearchHangs: Sizes answers while a search waits for a node. Close ends the search.
func TestSizesWhileSearchHangs(t *testing.T) {
	cluster := testserver.Cluster(t, 3)
	for _, node := range cluster.Nodes {
		command(t, node, "CONFIG", "SET", "cluster-node-timeout", "600000") // a node that hangs stays a part of it
	}
	s, err := redisstore.Open(t.Context(), cluster.URL(), &redisstore.Options{Timeout: 90 * time.Second})
	must(t, err)
	info := create(t, s, "s")
	state, _ := owner(t, cluster, "reprise:{"+info.Key.String()+"}:state")
	lists, _ := owner(t, cluster, "reprise:{reprise}:number")
	for _, node := range cluster.Nodes {
		if node != state && node != lists {
			must(t, node.Pause())
			defer func() { must(t, node.Resume()) }()
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		sizes, err := s.Sizes(ctx)
		must(t, err)
		if size := sizes[reprise.DefaultTenant]; size.Streams != 1 {
			t.Errorf("%d streams, want 1", size.Streams)
		}
	}
	if !s.Searching() {
		t.Error("no search hangs: this tests nothing")
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("Close does not end the search")
	}
	if s.Searching() {
		t.Error("Close has left the search running")
	}
}
