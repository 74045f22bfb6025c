package testserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"reprise/internal/freeport"
)

// BouncerServer is a PgBouncer in front of a PostgreSQL server. It assigns a connection to each transaction.
type BouncerServer struct {
	dir  string
	port int
	cmd  *exec.Cmd
	done chan struct{}
}

// Bouncer starts a PgBouncer with few connections to a server without a password. The error is ErrMissing if it is not
// installed. The caller must call Stop.
func Bouncer(to *PostgresServer) (*BouncerServer, error) {
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		return nil, fmt.Errorf("%w: pgbouncer", ErrMissing)
	}
	b := &BouncerServer{}
	if b.dir, err = os.MkdirTemp("", "reprise-pgbouncer-"); err != nil {
		return nil, err
	}
	if err := b.start(path, to); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

func (b *BouncerServer) start(path string, to *PostgresServer) error {
	var err error
	if b.port, err = freeport.Find(0); err != nil {
		return err
	}
	config := filepath.Join(b.dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
reprise = host=127.0.0.1 port=%d dbname=reprise user=reprise
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
`, to.port, b.port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	b.cmd = exec.Command(path, "-q", config)
	as, err := runAs()
	if err != nil {
		return err
	}
	b.cmd.SysProcAttr = inGroup(as)
	for _, file := range []string{b.dir, config} {
		if err := to.Own(file); err != nil {
			return err
		}
	}
	if b.done, err = startTied(b.cmd); err != nil {
		b.cmd = nil
		return err
	}
	for deadline := time.Now().Add(postgresPatience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case <-b.done:
			return errors.New("PgBouncer has ended")
		default:
		}
		if conn, err := net.Dial("tcp", b.addr()); err == nil {
			return conn.Close()
		}
	}
	return fmt.Errorf("PgBouncer did not answer for %v", postgresPatience)
}

func (b *BouncerServer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// URL returns the URL of the server's database through PgBouncer.
func (b *BouncerServer) URL() string {
	return "postgres://reprise@" + b.addr() + "/reprise?sslmode=disable"
}

// Stop ends PgBouncer.
func (b *BouncerServer) Stop() error {
	var err error
	if b.cmd != nil {
		err = b.cmd.Process.Kill()
		<-b.done
		b.cmd = nil
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}
