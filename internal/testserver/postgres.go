package testserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"reprise/internal/freeport"
)

// PostgresOptions are the settings of a PostgreSQL server. The zero value of each field means its default.
type PostgresOptions struct {
	// Config is lines for postgresql.conf, such as "fsync = off".
	Config []string
	// Password, if not "", is required from the user reprise. Default: connections from loopback are trusted.
	Password string
	// TLS makes the server refuse connections without it. Its certificate is for "localhost" and
	// 127.0.0.1; see PostgresServer.CertFile.
	TLS bool
}

// PostgresServer is a PostgreSQL server with a database and a superuser, both named reprise. Its methods are not safe
// for concurrent use.
type PostgresServer struct {
	opts PostgresOptions
	dir  string
	port int
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Postgres starts a server that ends with the test. If PostgreSQL is not installed, the test is skipped, or fails if CI
// is set.
func Postgres(tb testing.TB, opts *PostgresOptions) *PostgresServer {
	tb.Helper()
	s, err := StartPostgres(opts)
	started(tb, s, err)
	return s
}

// StartPostgres starts a server outside of a test, for example in TestMain. The caller must call Stop. The error is
// ErrMissing if PostgreSQL is not installed.
func StartPostgres(opts *PostgresOptions) (*PostgresServer, error) {
	if _, err := postgresBinary("postgres"); err != nil {
		return nil, err
	}
	s := &PostgresServer{}
	if opts != nil {
		s.opts = *opts
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// postgresBinary finds a program of PostgreSQL: in the folder that REPRISE_POSTGRES names, where Debian puts it, or in
// PATH.
func postgresBinary(name string) (string, error) {
	if dir := os.Getenv("REPRISE_POSTGRES"); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: %s", ErrMissing, path)
		}
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err == nil && len(found) > 0 {
		return found[len(found)-1], nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %s", ErrMissing, name)
	}
	return path, nil
}

// runAs is that of the user postgres or nobody when we are root, as whom PostgreSQL does not run.
func runAs() (*credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
		return &credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uerr, gerr)
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// command is a program of the server's, as its user and in its folder.
func (s *PostgresServer) command(name string, args ...string) (*exec.Cmd, error) {
	path, err := postgresBinary(name)
	if err != nil {
		return nil, err
	}
	as, err := runAs()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = inGroup(as)
	return cmd, nil
}

// prepare makes the folder of the server.
func (s *PostgresServer) prepare() error {
	var err error
	if s.port, err = freeport.Find(0); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "reprise-postgres-"); err != nil {
		return err
	}
	if err := s.Own(s.dir); err != nil {
		return err
	}
	if err := s.write("password", s.opts.Password+"\n", 0o600); err != nil {
		return err
	}
	args := []string{"-D", s.data(), "-U", "reprise", "-E", "UTF8", "--no-locale", "--no-sync", "-A", "trust"}
	if s.opts.Password != "" {
		args = append(args[:len(args)-1], "scram-sha-256", "--pwfile", "password")
	}
	cmd, err := s.command("initdb", args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s.configure()
}

func (s *PostgresServer) data() string { return filepath.Join(s.dir, "data") }

// CertFile is the certificate of the authority that has signed the server's.
func (s *PostgresServer) CertFile() string { return filepath.Join(s.dir, "ca.pem") }

// Own gives a file or folder to the user that the server runs as.
func (s *PostgresServer) Own(path string) error {
	as, err := runAs()
	if err != nil || as == nil {
		return err
	}
	return os.Chown(path, int(as.Uid), int(as.Gid))
}

// write makes a file of the server's.
func (s *PostgresServer) write(name, text string, mode fs.FileMode) error {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		return err
	}
	return s.Own(path)
}

func (s *PostgresServer) configure() error {
	lines := []string{
		"listen_addresses = '127.0.0.1'", "port = " + strconv.Itoa(s.port), "unix_socket_directories = '" + s.dir + "'",
		"max_connections = 200", "logging_collector = off", "restore_command = 'false'", "hot_standby = off",
		"dynamic_shared_memory_type = mmap",
	}
	if s.opts.TLS {
		if err := s.certify(); err != nil {
			return err
		}
		lines = append(lines, "ssl = on", "ssl_cert_file = '../cert.pem'", "ssl_key_file = '../key.pem'")
		auth := "trust"
		if s.opts.Password != "" {
			auth = "scram-sha-256"
		}
		if err := s.write("data/pg_hba.conf", "local all all "+auth+"\nhostssl all all 127.0.0.1/32 "+auth+"\n",
			0o600); err != nil {
			return err
		}
	}
	lines = append(lines, s.opts.Config...)
	return s.write("data/postgresql.auto.conf", strings.Join(lines, "\n")+"\n", 0o600)
}

// certify makes a certificate, and gives it to the server.
func (s *PostgresServer) certify() error {
	if err := makeCertificate(s.dir); err != nil {
		return err
	}
	return errors.Join(s.Own(filepath.Join(s.dir, "cert.pem")), s.Own(filepath.Join(s.dir, "key.pem")))
}
