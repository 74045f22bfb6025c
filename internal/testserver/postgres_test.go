package testserver_test

import (
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"reprise/internal/testserver"
)

// The server answers, keeps its data over SIGKILL, and is still while it is paused.
func TestPostgresKeepsDataOverKill(t *testing.T) {
	s := testserver.Postgres(t, &testserver.PostgresOptions{Password: "secret", TLS: true})
	ctx := t.Context()
	query := func(sql string) {
		t.Helper()
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	query("CREATE TABLE t (a int)")
	for _, end := range []func() error{s.Kill, s.Quit} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if c, err := net.Dial("tcp", s.Addr()); err == nil {
			c.Close()
			t.Fatal("somebody answers after the end")
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		query("INSERT INTO t VALUES (1)")
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		query("SELECT 1")
	}()
	select {
	case <-answered:
		t.Error("it answers while it is paused")
	case <-time.After(200 * time.Millisecond):
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	<-answered
}
