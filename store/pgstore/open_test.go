package pgstore_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/pgstore"
)

// What is wrong with a URL or with who asks is told at once, and never the password.
func TestRefusedAtOnceWithoutPassword(t *testing.T) {
	own := testserver.Postgres(t,
		&testserver.PostgresOptions{Password: "correct", TLS: true, Config: []string{"fsync = off"}})
	with := func(user, password, database, query string) string {
		u := url.URL{
			Scheme: "postgres", User: url.UserPassword(user, password), Host: own.Addr(), Path: database,
			RawQuery: query,
		}
		return u.String()
	}
	for what, c := range map[string]struct {
		url  string
		want error
	}{
		"password": {with("reprise", "s3cret", "reprise", ""), pgstore.ErrRefused},
		"user":     {with("nobody", "s3cret", "reprise", ""), pgstore.ErrRefused},
		"database": {with("reprise", "correct", "absent", ""), pgstore.ErrRefused},
		"no TLS":   {with("reprise", "correct", "reprise", "sslmode=disable"), pgstore.ErrRefused},
		"certificate": {
			with("reprise", "correct", "reprise", "sslmode=verify-full"), reprise.ErrUnavailable,
		},
		"unknown parameter":       {with("reprise", "s3cret", "reprise", "colour=red"), reprise.ErrInvalid},
		"parameter twice":         {with("reprise", "s3cret", "reprise", "poll=1s&poll=2s"), reprise.ErrInvalid},
		"not a duration":          {with("reprise", "s3cret", "reprise", "timeout=10"), reprise.ErrInvalid},
		"no time at all":          {with("reprise", "s3cret", "reprise", "timeout=0s"), reprise.ErrInvalid},
		"not a number":            {with("reprise", "s3cret", "reprise", "connections=many"), reprise.ErrInvalid},
		"too few connections":     {with("reprise", "s3cret", "reprise", "connections=0"), reprise.ErrInvalid},
		"neither keeps nor loses": {with("reprise", "s3cret", "reprise", "failover=perhaps"), reprise.ErrInvalid},
		"neither on nor off":      {with("reprise", "s3cret", "reprise", "notify=maybe"), reprise.ErrInvalid},
		"schema":                  {with("reprise", "s3cret", "reprise", "schema=a%22b"), reprise.ErrInvalid},
		"commit":                  {with("reprise", "s3cret", "reprise", "commit=never"), reprise.ErrInvalid},
		"polling all the time":    {with("reprise", "s3cret", "reprise", "poll=1us"), reprise.ErrInvalid},
		"small partitions":        {with("reprise", "s3cret", "reprise", "part_bytes=1"), reprise.ErrInvalid},
		"where to listen": {
			with("reprise", "s3cret", "reprise", "listen=postgres%3A%2F%2Fx%3As3cret%40%3Ax"), reprise.ErrInvalid,
		},
		"tls mode":     {with("reprise", "s3cret", "reprise", "sslmode=perhaps"), reprise.ErrInvalid},
		"scheme":       {"mysql://reprise:s3cret@host/db", reprise.ErrInvalid},
		"no URL":       {"host=localhost password=s3cret", reprise.ErrInvalid},
		"malformed":    {"postgres://reprise:s3cret@host:port/db", reprise.ErrInvalid},
		"nobody there": {"postgres://reprise:s3cret@127.0.0.1:1/db", reprise.ErrUnavailable},
	} {
		s, err := pgstore.Open(t.Context(), c.url, nil)
		if err == nil {
			t.Errorf("%s: opened", what)
			s.Close()
			continue
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if text := err.Error(); strings.Contains(text, "s3cret") || strings.Contains(text, "correct") {
			t.Errorf("%s: the error holds the password: %s", what, text)
		}
	}
	s := mustOpen(t,
		with("reprise", "correct", "reprise", "sslmode=verify-full&sslrootcert="+url.QueryEscape(own.CertFile())), nil)
	req := create(t, s, "s")
	put(t, s, &req, 100, 10)
}

// A role that owns the schema needs nothing else, and one that may only use the tables can open them.
func TestPrivilegesOfTablesSuffice(t *testing.T) {
	own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
	sql(t, own.URL(), `CREATE ROLE maker LOGIN`, `CREATE ROLE stranger LOGIN`,
		`CREATE SCHEMA reprise AUTHORIZATION maker`)
	as := func(role string) string { return strings.Replace(own.URL(), "//reprise@", "//"+role+"@", 1) }
	if _, err := pgstore.Open(t.Context(), as("stranger"), nil); !errors.Is(err, pgstore.ErrRefused) {
		t.Errorf("somebody without rights: %v", err)
	}
	s := mustOpen(t, as("maker"), nil)
	req := create(t, s, "s")
	put(t, s, &req, 100, 10)
	check(t, s.Tidy(t.Context()))
}

// Tables of others, and those of a newer version, are left as they are.
func TestForeignTables(t *testing.T) {
	name := schema(t, server)
	opts := &pgstore.Options{Schema: name}
	sql(t, server.URL(), fmt.Sprintf(`CREATE SCHEMA %q`, name), fmt.Sprintf(`CREATE TABLE %q.streams (a int)`, name))
	if _, err := pgstore.Open(t.Context(), server.URL(), opts); !errors.Is(err, pgstore.ErrNotOurs) {
		t.Errorf("tables of others: %v", err)
	}
	sql(t, server.URL(), fmt.Sprintf(`DROP TABLE %q.streams`, name)) // an empty schema is taken
	mustOpen(t, server.URL(), opts)
	sql(t, server.URL(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION %q.schema_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 99'`,
		name))
	if _, err := pgstore.Open(t.Context(), server.URL(), opts); !errors.Is(err, pgstore.ErrNewer) {
		t.Errorf("tables of a newer version: %v", err)
	}
}

// Replicas that start together make the tables once.
func TestOpenedTogether(t *testing.T) {
	name := schema(t, server)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := pgstore.Open(t.Context(), server.URL(), &pgstore.Options{Schema: name})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Options of the URL reach the server.
func TestCommitLevel(t *testing.T) {
	s := mustOpen(t, server.URL()+"&commit=off&connections=1&notify=off&schema="+schema(t, server), nil)
	req := create(t, s, "s")
	put(t, s, &req, 100, 10)
	intact(t, s, "s", 100)
}

// pooled starts a PgBouncer in front of the shared server, which gives each transaction another connection.
func pooled(t *testing.T) string {
	bouncer, err := testserver.Bouncer(server)
	if errors.Is(err, testserver.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	check(t, err)
	t.Cleanup(func() { check(t, bouncer.Stop()) })
	return bouncer.URL()
}

// Through a pooler all works but notifications; in their place the watched streams are polled, or another connection
// listens past the pooler.
func TestPoolerWithoutNotifications(t *testing.T) {
	through := pooled(t)
	name := schema(t, server)
	direct := mustOpen(t, server.URL()+"&poll=1h", &pgstore.Options{Schema: name})
	deaf := mustOpen(t, through, &pgstore.Options{Schema: name})
	hearing := mustOpen(t, through+"&poll=1h&listen="+url.QueryEscape(server.URL()), &pgstore.Options{Schema: name})
	all := []*pgstore.Store{direct, deaf, hearing}

	var wg sync.WaitGroup
	for i, s := range all {
		for n := range 4 {
			wg.Go(func() {
				req := create(t, s, fmt.Sprintf("busy/%d/%d", i, n))
				for range 50 {
					put(t, s, &req, 200, 20)
				}
				intact(t, all[(i+1)%len(all)], req.Key.Name, 200)
			})
		}
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	req := create(t, direct, "s")
	for i, s := range all {
		moved := make(chan struct{}, 1)
		stop, err := s.Watch(key("s"), func() {
			select {
			case moved <- struct{}{}:
			default:
			}
		})
		check(t, err)
		time.Sleep(300 * time.Millisecond) // the first poll is over
		select {
		case <-moved:
		default:
		}
		put(t, all[(i+2)%len(all)], &req, 100, 1000)
		select {
		case <-moved:
		case <-time.After(2 * time.Minute):
			t.Errorf("store %d is not told what another one has appended", i)
		}
		stop()
	}
	check(t, deaf.Tidy(t.Context()))
}
