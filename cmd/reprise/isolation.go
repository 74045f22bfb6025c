package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"reprise/internal/datadir"
	"reprise/internal/isolation"
)

// isolationFlags say how the commands that we start are isolated.
type isolationFlags struct {
	Isolation      string   `enum:",none,limits,landlock,bubblewrap" default:"" placeholder:"LEVEL" help:"Default isolation of commands: none, limits, landlock or bubblewrap. Default: limits if this machine supports it."`
	LeastIsolation string   `enum:",none,limits,landlock,bubblewrap" default:"" placeholder:"LEVEL" help:"Weakest level at which a command runs. From landlock on, commands work only below --writable. Default: none."`
	Hide           []string `sep:"none" placeholder:"PATH" help:"File or directory that commands cannot reach, in addition to the data directory. May be repeated."`
	Readable       []string `sep:"none" placeholder:"[TENANT=]PATH" help:"File or directory that commands, or one tenant's commands, may read at the levels landlock and bubblewrap, in addition to the system's. May be repeated."`
	Writable       []string `sep:"none" placeholder:"[TENANT=]DIR" help:"Directory below which commands, or one tenant's commands, may write at the levels landlock and bubblewrap. May be repeated."`
	Network        string   `enum:"on,off" default:"on" placeholder:"on|off" help:"Network of commands; off leaves them only their own loopback interface. Default: ${default}."`
	RunAsRange     string   `placeholder:"FIRST:COUNT" help:"User numbers from which each tenant without a --run-as of its own gets one, as in 200000:65536; the server must be root."`
	SharedUser     bool     `help:"Run commands of different tenants as one user, which can reach each other's processes and files where the isolation lets them."`
	LimitCommand   []string `sep:"none" placeholder:"[TENANT:]NAME=VALUE,..." help:"Most that each command, or each of one tenant, may use: memory, processes, cpu, output and grace, as in memory=2GiB,processes=512,cpu=1h,grace=1m. Requests may ask for less. May be repeated. Default: none."`
	RunAs          []string `sep:"none" placeholder:"[TENANT=]USER" help:"User that commands, or one tenant's commands, run as; the server must be root. May be repeated. Default: the server's user."`
}

// config is what the flags ask for. secrets are out of reach at every level but none.
func (f *isolationFlags) config(secrets ...string) (isolation.Config, error) {
	c := isolation.Config{
		Level: isolation.Level(f.Isolation), Least: isolation.Level(f.LeastIsolation),
		Offline: f.Network == "off",
	}
	var err error
	if c.Masks, err = isolation.OpenMasks(append(secrets, f.Hide...)...); err != nil {
		return c, err
	}
	if err := f.open(&c); err != nil {
		return c, err
	}
	c.Confined = c.Least == isolation.Landlock || c.Least == isolation.Bubblewrap
	if c.Confined && len(f.Writable) == 0 {
		return c, usage("--least-isolation %s needs --writable DIR, the directories in which commands work", c.Least)
	}
	if err := f.users(&c); err != nil {
		return c, usage("--run-as: %w", err)
	}
	for _, tenant := range slices.Concat(slices.Sorted(maps.Keys(c.Users)), slices.Sorted(maps.Keys(c.Tenants)),
		[]string{""}) {
		of := c
		of.Directories = c.Open(tenant)
		if u := c.Users[tenant]; u != nil {
			of.User = u
		}
		of.Confined = false // a tenant without a directory gets no command
		if _, err := of.Resolve(c.Level, isolation.Access{}); err != nil {
			return c, usage("--isolation: %w; \"reprise doctor\" says what this machine gives", err)
		}
	}
	return c, nil
}

// openRange opens the users of --run-as-range, which are kept in dir.
func (f *isolationFlags) openRange(c *isolation.Config, dir string, logger *slog.Logger) error {
	c.SharedUser = f.SharedUser
	if f.RunAsRange == "" {
		return nil
	}
	if err := c.CanSwitch(); err != nil {
		return usage("--run-as-range: the server must be root for that: %w", err)
	}
	first, count, _ := strings.Cut(f.RunAsRange, ":")
	n, err := strconv.Atoi(first)
	m, countErr := strconv.Atoi(count)
	if err = errors.Join(err, countErr); err != nil {
		return usage("--run-as-range %s: it is FIRST:COUNT, as in 200000:65536", f.RunAsRange)
	}
	if c.Range, err = isolation.OpenUserRange(n, m, filepath.Join(dir, datadir.UsersFile)); err != nil {
		return usage("--run-as-range: %w", err)
	}
	for _, tenant := range slices.Sorted(maps.Keys(c.Tenants)) { // so that their directories can be given to them
		of, err := c.For(tenant)
		if err != nil {
			return usage("--run-as-range: %w", err)
		}
		logger.Info("commands of a tenant run as this user, who needs rights to its directories", "tenant", tenant,
			"user", of.User.Name, "directories", of.Writable)
	}
	return nil
}

// open finds the directories that are open to commands: PATH for all, TENANT=PATH for a tenant's.
func (f *isolationFlags) open(c *isolation.Config) error {
	for _, flag := range []struct {
		name  string
		texts []string
		list  func(*isolation.Directories) *[]string
	}{
		{"--readable", f.Readable, func(d *isolation.Directories) *[]string { return &d.Readable }},
		{"--writable", f.Writable, func(d *isolation.Directories) *[]string { return &d.Writable }},
	} {
		for _, text := range flag.texts {
			tenant, path, ofTenant := strings.Cut(text, "=")
			if ofTenant = ofTenant && !strings.Contains(tenant, "/"); !ofTenant {
				path = text
			}
			path, err := filepath.Abs(path)
			if err == nil {
				_, err = os.Stat(path)
			}
			switch {
			case err != nil:
				return usage("%s: %w", flag.name, err)
			case ofTenant && tenant == "":
				return usage("%s %s: which tenant?", flag.name, text)
			case path == "/":
				return usage("%s /: name the directories in it", flag.name)
			}
			of := c.Tenants[tenant]
			if !ofTenant {
				of = c.Directories
			}
			*flag.list(&of) = append(*flag.list(&of), path)
			switch {
			case !ofTenant:
				c.Directories = of
				continue
			case c.Tenants == nil:
				c.Tenants = map[string]isolation.Directories{}
			}
			c.Tenants[tenant] = of
		}
	}
	return nil
}

// users finds those that commands run as: USER for all, TENANT=USER for a tenant's.
func (f *isolationFlags) users(c *isolation.Config) error {
	for _, text := range f.RunAs {
		tenant, name, ofTenant := strings.Cut(text, "=")
		if !ofTenant {
			name = text
		}
		u, err := isolation.LookupUser(name)
		if err != nil {
			return err
		}
		switch {
		case ofTenant && tenant == "":
			return fmt.Errorf("%s: which tenant?", text)
		case ofTenant && c.Users[tenant] != nil || !ofTenant && c.User != nil:
			return fmt.Errorf("%s: there is another user already", text)
		case !ofTenant:
			c.User = u
			continue
		case c.Users == nil:
			c.Users = map[string]*isolation.User{}
		}
		c.Users[tenant] = u
	}
	return nil
}

// isolate returns how commands of the server with a data directory are isolated, and keeps other processes from our
// memory. secrets are files and directories of ours.
func (f *isolationFlags) isolate(logger *slog.Logger, data string, secrets ...string) (isolation.Config, error) {
	c, err := f.config(secrets...)
	if err != nil {
		return c, err
	}
	anybody := c
	anybody.Confined = false
	plan, err := anybody.Resolve("", isolation.Access{})
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
	case root && f.RunAsRange == "":
		logger.Info("commands run as root", "isolation", plan.Level, "advice", "--run-as names another user")
	}
	if dirs := c.Movable(); len(dirs) > 0 {
		logger.Warn("commands can rename what is above hidden files, or above this program: the server no longer finds them then",
			"directories", dirs, "advice", "name other directories by --writable, or use --run-as; see reprise doctor")
	}
	if files := isolation.Replaceable(c.Masks.Paths()); len(files) > 0 &&
		plan.Layers.Hidden == isolation.ByMounts {
		logger.Warn("when a hidden file is replaced or made, commands that run already can read the new one",
			"files", files, "advice", "put them into a directory that is hidden as a whole (--hide DIR)")
	}
	return c, f.openRange(&c, data, logger)
}
