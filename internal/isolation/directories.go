package isolation

import (
	"os"
	"path/filepath"
	"slices"
)

// Directories are what a server opens to its commands at the levels Landlock and Bubblewrap.
type Directories struct {
	Readable []string `json:"readable,omitempty"`
	Writable []string `json:"writable,omitempty"`
}

// and returns both.
func (d Directories) and(other Directories) Directories {
	return Directories{slices.Concat(d.Readable, other.Readable), slices.Concat(d.Writable, other.Writable)}
}

// Open are the directories that are open to commands of a tenant.
func (c *Config) Open(tenant string) Directories { return c.Directories.and(c.Tenants[tenant]) }

// own are the directories in place of which commands get their own ones.
func (c *Config) own() []string {
	home, _ := os.UserHomeDir()
	if c.User != nil {
		home = c.User.Home
	}
	list := []string{"/tmp", "/var/tmp", os.TempDir()}
	if filepath.IsAbs(home) && filepath.Clean(home) != "/" {
		list = append(list, home)
	}
	return list
}

// Opens reports whether a directory named by the server or the request is home, or lies above or below it.
func (p *Plan) Opens(home string) bool {
	home = existing(home)
	if dir := existing(p.Access.Dir); dir != "/" && within(home, dir) { // the root is not opened; see forest
		return true
	}
	open := slices.Concat(p.Server.Readable, p.Server.Writable, p.Access.Readable, p.Access.Writable)
	return slices.ContainsFunc(open, func(path string) bool {
		return within(home, existing(path)) || within(existing(path), home)
	})
}
