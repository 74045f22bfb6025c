package pgstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/pgstore"
	"reprise/store/storetest"
)

// server is shared by all tests that do not harm it.
var server *testserver.PostgresServer

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		// What a crash of the server alone could take back is tested with servers of their own.
		server, err = testserver.StartPostgres(&testserver.PostgresOptions{Config: []string{"fsync = off"}})
		switch {
		case errors.Is(err, testserver.ErrMissing) && os.Getenv("CI") == "":
			fmt.Println("skipped:", err)
			return 0
		case err != nil:
			fmt.Println(err)
			return 1
		}
		code := m.Run()
		if err := server.Stop(); err != nil {
			fmt.Println(err)
			code = 1
		}
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
		return code
	}())
}

// schema makes a name for a schema of its own, which is dropped at the end of the test.
func schema(tb testing.TB, s *testserver.PostgresServer) string {
	name := "t_" + rand.Text()[:10]
	tb.Cleanup(func() { sql(tb, s.URL(), `DROP SCHEMA IF EXISTS "`+name+`" CASCADE`) })
	return name
}

// sql carries out statements by a connection of its own.
func sql(tb testing.TB, url string, statements ...string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		conn, err = pgx.Connect(context.Background(), url)
	}
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, statement := range statements {
		if _, err := conn.Exec(context.Background(), statement); err != nil {
			tb.Fatalf("%s: %v", statement, err)
		}
	}
}

// open makes a schema. Replicas are Stores on the same one.
func open(tb testing.TB) storetest.Harness {
	name := schema(tb, server)
	replica := func() (reprise.Store, error) {
		return pgstore.Open(tb.Context(), server.URL(), &pgstore.Options{Schema: name})
	}
	return storetest.Harness{
		Persistent: true,
		Open:       replica,
		Share:      replica,
		// The server is what can crash: it is killed, and recovers.
		Crash: func(s reprise.Store) error { return errors.Join(s.Close(), server.Kill(), server.Start()) },
		Fault: func(reprise.Store) (mend func() error, err error) { return server.Start, server.Kill() },
		Deafen: func(reprise.Store) error {
			sql(tb, server.URL(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'reprise listens'`)
			return nil
		},
		Cut: func(reprise.Store) error {
			sql(tb, server.URL(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
			return nil
		},
	}
}

func TestStoreKeepsContract(t *testing.T) {
	storetest.Run(t, open, &storetest.Options{Events: suiteEvents, Streams: suiteStreams})
}
