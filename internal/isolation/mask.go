package isolation

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
)

// A Mask is a file or directory that a command does not reach. A command is started only if the path still leads to
// that very file or directory.
type Mask struct {
	// Path is absolute and has no symbolic links.
	Path string `json:"path"`
	// Dir reports whether it is a directory, which is masked with all below it.
	Dir bool `json:"dir,omitempty"`
	// Dev and Ino are its device and its inode.
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// outermost returns the masks that are not below another one.
func outermost(masks []Mask) (roots []Mask) {
	for i, m := range masks {
		covered := false
		for j, other := range masks {
			covered = covered || other.Dir && other.Path != m.Path && within(m.Path, other.Path) ||
				j < i && other == m
		}
		if !covered {
			roots = append(roots, m)
		}
	}
	return roots
}

// Masked returns the paths of the masks.
func (p *Plan) Masked() (paths []string) {
	for _, m := range p.Masks {
		paths = append(paths, m.Path)
	}
	return paths
}

// Again is the plan for another process with the boundary of a command that has ended, which works in dir. Where the
// masks of the server lie is looked up again, and what the request has hidden stays so if it is still there.
func (p *Plan) Again(masks *Masks, dir string) (*Plan, error) {
	again := *p
	again.Access.Dir, again.Private, again.Visible = dir, "", nil
	var err error
	if again.Masks, err = masks.Current(); err != nil {
		return nil, err
	}
	for _, m := range p.Masks {
		if now, err := maskAt(m.Path); err == nil && now == m && !slices.Contains(again.Masks, m) {
			again.Masks = append(again.Masks, m)
		}
	}
	return &again, nil
}

// systemSecrets are patterns of what the system keeps from everybody but root: digests of passwords, and the keys by
// which the machine is known to others.
var systemSecrets = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh/ssh_host_*_key", "/etc/ssl/private",
}

// hideSystem adds the secrets of the system to the masks of a command that is root and sees /etc only because every
// command does: no build needs them. What the server or the request opens by name stays open. Without mounts they
// stay readable, since rules of Landlock could then no longer open /etc as a whole.
func (p *Plan) hideSystem() error {
	if p.Level.weaker(Landlock) || !p.isRoot() || p.machine.lacksViews() != nil {
		return nil //nolint:nilerr // nothing is hidden there
	}
	opened := slices.Concat(p.Server.Readable, p.Server.Writable, p.Access.Readable, p.Access.Writable,
		[]string{p.Access.Dir})
	for _, pattern := range systemSecrets {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			m, err := maskAt(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				return err
			}
			isOpen := func(dir string) bool { return dir != "" && dir != "/" && within(m.Path, existing(dir)) }
			if !slices.ContainsFunc(opened, isOpen) {
				p.Masks = append(p.Masks, m)
			}
		}
	}
	return nil
}
