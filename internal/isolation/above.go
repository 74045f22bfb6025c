package isolation

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Movable returns the directories above what is masked, and above the file of this program, in which commands at the
// least level can rename entries. Masked paths stay masked, but the server no longer finds it by its name; and the
// next start may find another program. The result is empty without a least level, since
// requests then choose one that has no masks.
func (c *Config) Movable() (dirs []string) {
	if !None.weaker(c.Least) {
		return nil
	}
	paths := c.Masks.Paths()
	if program, err := os.Executable(); err == nil {
		paths = append(paths, program)
	}
	for _, path := range paths {
		for dir := filepath.Dir(existing(path)); ; dir = filepath.Dir(dir) {
			if c.writes(dir) {
				dirs = append(dirs, dir)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// writes reports whether commands at the least level can write to a directory.
func (c *Config) writes(dir string) bool {
	if !c.Least.weaker(Landlock) {
		open := slices.Clone(c.Writable)
		for _, of := range c.Tenants {
			open = append(open, of.Writable...)
		}
		return slices.ContainsFunc(open, func(root string) bool { return within(dir, existing(root)) })
	}
	users := slices.Collect(maps.Values(c.Users))
	if c.Range != nil {
		users = append(users, &User{UID: c.Range.first, GID: c.Range.first})
	} else {
		users = append(users, c.User)
	}
	return slices.ContainsFunc(users, func(u *User) bool { return u.writes(dir) })
}
