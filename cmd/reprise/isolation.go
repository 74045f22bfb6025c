package main

import (
	"errors"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"reprise/internal/isolation"
)

// isolationFlags say how the commands that we start are isolated.
type isolationFlags struct {
	Isolation      string   `enum:",none,limits,landlock,bubblewrap" default:"" placeholder:"LEVEL" help:"Default isolation of commands: none, limits, landlock or bubblewrap. Default: limits if this machine supports it."`
	LeastIsolation string   `enum:",none,limits,landlock,bubblewrap" default:"" placeholder:"LEVEL" help:"Weakest level that a start may ask for. Default: none."`
	Hide           []string `sep:"none" placeholder:"PATH" help:"File or directory that commands cannot reach, in addition to the data directory. May be repeated."`
	Writable       []string `sep:"none" placeholder:"DIR" help:"Directory below which commands may write at the levels landlock and bubblewrap. May be repeated."`
	Network        string   `enum:"on,off" default:"on" placeholder:"on|off" help:"Network of commands; off leaves them only their own loopback interface. Default: ${default}."`
	RunAs          string   `placeholder:"USER" help:"User that commands run as; the server must be root. Default: the server's user."`
}

// config is what the flags ask for. hidden is out of reach at every level but none.
func (f *isolationFlags) config(hidden ...string) (isolation.Config, error) {
	c := isolation.Config{
		Level: isolation.Level(f.Isolation), Least: isolation.Level(f.LeastIsolation),
		Access: isolation.Access{Offline: f.Network == "off"},
	}
	var err error
	if c.Access.Hidden, err = absolute(append(hidden, f.Hide...)); err != nil {
		return c, err
	}
	if c.Access.Writable, err = absolute(f.Writable); err != nil {
		return c, err
	}
	for _, dir := range c.Access.Writable {
		if _, err := os.Stat(dir); err != nil {
			return c, usage("--writable: %w", err)
		}
	}
	if f.RunAs != "" {
		if c.User, err = lookupUser(f.RunAs); err != nil {
			return c, usage("--run-as: %w", err)
		}
	}
	if _, err := c.Resolve("", isolation.Access{}); err != nil {
		return c, usage("--isolation: %w; \"reprise doctor\" says what this machine gives", err)
	}
	return c, nil
}

func absolute(paths []string) (list []string, err error) {
	for _, path := range paths {
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		list = append(list, path)
	}
	return list, nil
}

// lookupUser finds a user by name or number.
func lookupUser(name string) (*isolation.User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if byID, idErr := user.LookupId(name); idErr == nil {
			u, err = byID, nil
		}
	}
	if err != nil {
		return nil, err
	}
	found := &isolation.User{Name: u.Username, Home: u.HomeDir}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	number := func(text string) int {
		n, numberErr := strconv.Atoi(text)
		err = errors.Join(err, numberErr)
		return n
	}
	found.UID, found.GID = number(u.Uid), number(u.Gid)
	for _, g := range groups {
		found.Groups = append(found.Groups, number(g))
	}
	return found, err
}

// isolate returns how commands are isolated, and keeps other processes from our memory. secrets are files and
// directories of ours.
func (f *isolationFlags) isolate(logger *slog.Logger, secrets ...string) (isolation.Config, error) {
	c, err := f.config(secrets...)
	if err != nil {
		return c, err
	}
	plan, err := c.Resolve("", isolation.Access{})
	if err != nil {
		return c, err
	}
	if err := isolation.Undumpable(); err != nil {
		logger.Warn("commands can read the memory of the server", "reason", err)
	}
	root := os.Geteuid() == 0 && (c.User == nil || c.User.UID == 0)
	switch {
	case plan.Level == isolation.None && root:
		logger.Warn("commands run as root without isolation: they can read the token and change this machine",
			"advice", "docs/isolation.md")
	case plan.Level == isolation.None:
		logger.Warn("commands run without isolation: they can read the token and the store",
			"advice", "docs/isolation.md")
	case root:
		logger.Info("commands run as root", "isolation", plan.Level, "advice", "--run-as names another user")
	}
	return c, nil
}

// secretPaths are the files and directories that hold what no command may read.
func (s *server) secretPaths(c *serveCmd) []string {
	paths := []string{s.dir.path, c.secrets(), c.file(c.secrets())}
	if key, err := filepath.Abs(c.TLSKey); err == nil && c.TLSKey != "" {
		paths = append(paths, key)
	}
	if file, ok := localPath(c.Store, s.dir); ok {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			paths = append(paths, file+suffix)
		}
	}
	return paths
}
