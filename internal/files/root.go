package files

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"reprise"
)

// linkError is the error of os.Root for operations on two paths.
type linkError = os.LinkError

// Options are the settings of Roots. The zero value of each field means its default.
type Options struct {
	// KeepUploads is how long an incomplete upload is kept after its last byte. Default: 24 hours.
	KeepUploads time.Duration
}

// Roots are the directories that can be used. It is safe for concurrent use.
type Roots struct {
	byName map[string]*root
	keep   time.Duration

	mu    sync.Mutex
	parts map[partKey]*part // uploads in progress
	swept time.Time
}

// root is a directory of Roots.
type root struct {
	name string
	dir  string // its absolute path, "" for a directory below a root
	*os.Root
}

// Open opens directories under the names with which paths begin: letters, digits, '.', '_' and '-'. opts may be nil.
// The error wraps reprise.ErrInvalid for an invalid name.
func Open(directories map[string]string, opts *Options) (*Roots, error) {
	r := &Roots{byName: map[string]*root{}, parts: map[partKey]*part{}, keep: 24 * time.Hour}
	if opts != nil {
		r.keep = cmp.Or(opts.KeepUploads, r.keep)
	}
	for name, directory := range directories {
		if err := checkRootName(name); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		opened, err := os.OpenRoot(directory)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.byName[name] = &root{name: name, Root: opened}
		if r.byName[name].dir, err = filepath.Abs(directory); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	r.sweepUploads(time.Now())
	return r, nil
}

func checkRootName(name string) error {
	// The name of a root has the form of a tenant's: one segment that needs no escaping.
	key := reprise.StreamKey{Tenant: reprise.Tenant(name), Name: name}
	if err := key.Validate(); err != nil || len(name) > maxSegment {
		return fmt.Errorf("%w: %q is not a name for a root: letters, digits, '.', '_' and '-'",
			reprise.ErrInvalid, name)
	}
	return nil
}

// Close closes the directories. Files that are open stay open.
func (r *Roots) Close() error {
	var errs []error
	for _, in := range r.byName {
		errs = append(errs, in.Root.Close())
	}
	return errors.Join(errs...)
}

// Locate returns the path with which a file is named here by its absolute path on the server, and false if it is below
// no root. Of nested roots it is the innermost. Symbolic links are not followed.
func (r *Roots) Locate(absolute string) (p string, ok bool) {
	absolute = path.Clean(absolute)
	best := ""
	for name, in := range r.byName {
		rel, below := strings.CutPrefix(absolute, strings.TrimSuffix(in.dir, "/"))
		if !below || rel != "" && rel[0] != '/' || ok && len(in.dir) <= len(best) {
			continue
		}
		p, ok, best = path.Join(name, rel), true, in.dir
	}
	return p, ok
}

// Absolute returns the absolute path of a file on the server by its path here.
func (r *Roots) Absolute(p string) string {
	name, rel, _ := strings.Cut(p, "/")
	if in := r.byName[name]; in != nil {
		return path.Join(in.dir, rel)
	}
	return ""
}

// Names returns the names of the roots in order.
func (r *Roots) Names() []string { return slices.Sorted(maps.Keys(r.byName)) }

// Absolute returns the absolute path that p stands for: a tilde at its beginning is home, and dir is the directory of a
// relative path.
func Absolute(dir, home, p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		p = home + p[1:]
	}
	if path.IsAbs(p) {
		return p
	}
	return path.Join(dir, p)
}
