package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
	"reprise/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// places counts the names that were given to stores.
var places atomic.Int64

// place is the URL of an empty place on a server.
func place(server *testserver.NATSServer, params string) string {
	return fmt.Sprintf("%s?name=T%d%s", server.URL(), places.Add(1), params)
}

// drop removes what was kept in a place.
func drop(tb testing.TB, where string) {
	server, _, _ := strings.Cut(where, "?")
	dropAt(tb, server, where)
}

// dropAt removes what was kept in a place, at one of several servers.
func dropAt(tb testing.TB, server, where string) {
	tb.Helper()
	_, query, _ := strings.Cut(where, "?")
	params, err := url.ParseQuery(query)
	must(tb, err)
	conn, err := nats.Connect(server)
	must(tb, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	must(tb, err)
	for _, stream := range []string{params.Get("name"), params.Get("name") + "_INDEX"} {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		if err := js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			tb.Error(err)
		}
		cancel()
	}
}

// onServer makes places on a server that is there already, and nobody else's: it is killed.
func onServer(server *testserver.NATSServer) storetest.Opener {
	return func(tb testing.TB) storetest.Harness {
		where := place(server, "&timeout=3s")
		tb.Cleanup(func() { drop(tb, where) })
		open := func() (reprise.Store, error) { return natsstore.Open(context.Background(), where, nil) }
		return storetest.Harness{
			Open: open, Share: open, Persistent: true, Renews: true,
			Fault: func(reprise.Store) (func() error, error) { return server.Start, server.Kill() },
			Cut:   func(reprise.Store) error { return errors.Join(server.Kill(), server.Start()) },
		}
	}
}

func TestStoreKeepsContract(t *testing.T) {
	server := testserver.NATS(t, nil)
	storetest.Run(t, onServer(server), &storetest.Options{Events: 100_000, Streams: 2000})
}
