package testserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"reprise/internal/freeport"
)

// Standby starts a server that follows s by asynchronous streaming replication and accepts reads. It is promoted with
// SELECT pg_promote(), and ends with the test.
func (s *PostgresServer) Standby(tb testing.TB) *PostgresServer {
	tb.Helper()
	standby, err := s.startStandby()
	started(tb, standby, err)
	return standby
}

func (s *PostgresServer) startStandby() (*PostgresServer, error) {
	port, err := freeport.Find(0)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "reprise-postgres-")
	if err != nil {
		return nil, err
	}
	standby := &PostgresServer{opts: s.opts, dir: dir, port: port}
	err = standby.copyOf(s)
	if err == nil {
		err = standby.Start()
	}
	if err != nil {
		return nil, errors.Join(err, standby.Stop())
	}
	return standby, nil
}

// copyOf takes a base backup of the primary, which is running.
func (s *PostgresServer) copyOf(primary *PostgresServer) error {
	if err := s.Own(s.dir); err != nil {
		return err
	}
	cmd, err := s.command("pg_basebackup", "-h", primary.dir, "-p", strconv.Itoa(primary.port), "-U", "reprise",
		"-D", s.data(), "-X", "stream", "-c", "fast", "--no-sync")
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, "PGPASSWORD="+s.opts.Password)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	s.opts.Config = append([]string{
		"hot_standby = on", fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=reprise'", primary.dir, primary.port),
	}, s.opts.Config...)
	if err := s.configure(); err != nil {
		return err
	}
	if err := s.write("data/standby.signal", "", 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "made"), nil, 0o600)
}
