package natsstore_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
	"reprise/store/storetest"
)

// cluster starts three servers and returns the URL of a place on them, when that can be opened.
func cluster(t *testing.T) (servers []*testserver.NATSServer, where string) {
	t.Helper()
	servers = testserver.NATSCluster(t, 3, nil)
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	where = fmt.Sprintf("%s?name=T%d&replicas=3&timeout=5s", strings.Join(urls, ","), places.Add(1))
	openWhenThere(t, where)
	return servers, where
}

// leader is the server that leads the stream with the events.
func leader(t *testing.T, servers []*testserver.NATSServer, where string) *testserver.NATSServer {
	t.Helper()
	urls, query, _ := strings.Cut(where, "?")
	name, _, _ := strings.Cut(strings.TrimPrefix(query, "name="), "&")
	conn, err := nats.Connect(urls)
	must(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	must(t, err)
	for range 100 {
		stream, err := js.Stream(t.Context(), name)
		if err == nil {
			for _, s := range servers {
				if info := stream.CachedInfo(); info.Cluster != nil && s.Name() == info.Cluster.Leader {
					return s
				}
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the stream has no leader")
	return nil
}

// What was acknowledged outlives the loss of the server that leads, and the others go on.
func TestClusterLosesItsLeader(t *testing.T) {
	servers, where := cluster(t)
	underLoad(t, where, func(progress func()) {
		for range 2 {
			progress()
			lost := leader(t, servers, where)
			must(t, lost.Kill())
			progress() // with two
			must(t, lost.Start())
		}
		progress()
	})
}

// Two replicas go on over three leaders that are lost.
func TestClusterReplicas(t *testing.T) {
	slowly(t)
	servers, where := cluster(t)
	together(t, where, func() {
		lost := leader(t, servers, where)
		must(t, lost.Kill())
		must(t, lost.Start())
	})
}

// Calls that begin while there is no connection to a cluster record no start of a server, although one replica has the
// streams: ids of servers prove nothing there.
func TestClusterRecordsNoStartWhileDisconnected(t *testing.T) {
	server := testserver.NATSCluster(t, 3, nil)[0]
	where := place(server, "&timeout=20s")
	openWhenThere(t, where)
	disconnected := make(chan struct{}, 1)
	opts := &natsstore.Options{NATS: []nats.Option{
		nats.IgnoreDiscoveredServers(),
		nats.CustomReconnectDelay(func(int) time.Duration {
			select {
			case disconnected <- struct{}{}:
			default:
			}
			return 100 * time.Millisecond
		}),
	}}
	s, err := natsstore.Open(t.Context(), where, opts)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	info := create(t, s, "s")
	appendTo(t, s, &info, 1, []byte(label(1)))
	for range 2 {
		select {
		case <-disconnected: // of the round before
		default:
		}
		must(t, server.Kill())
		<-disconnected
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := answer(t, s, info.Key); err != nil {
					t.Error(err)
				}
			})
		}
		must(t, server.Start())
		wg.Wait()
	}
	if now := tail(t, s, info.Key); now.Epoch != info.Epoch || now.Tail != 1 {
		t.Errorf("the stream is in epoch %s with the tail %d, want %s and 1", now.Epoch, now.Tail, info.Epoch)
	}
	_, stream := behind(t, where)
	msg, err := stream.GetLastMsgForSubject(t.Context(), stream.CachedInfo().Config.Name+".d.=.boot")
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("a start is recorded: %v, %v", msg, err)
	}
}

// slowly skips what takes a minute or two.
func slowly(t *testing.T) {
	if os.Getenv("REPRISE_CLUSTER") == "" {
		t.Skip("it takes a minute or two: set REPRISE_CLUSTER=1")
	}
}

// The whole contract holds where any server may answer.
func TestClusterKeepsTheContract(t *testing.T) {
	slowly(t)
	servers, where := cluster(t)
	base, _, _ := strings.Cut(where, "?")
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		where := fmt.Sprintf("%s?name=T%d&replicas=3&timeout=10s", base, places.Add(1))
		tb.Cleanup(func() { dropAt(tb, servers[0].URL(), where) })
		open := func() (reprise.Store, error) { return natsstore.Open(tb.Context(), where, nil) }
		return storetest.Harness{Open: open, Share: open, Persistent: true}
	}, &storetest.Options{Events: 10_000, Streams: 200})
}
