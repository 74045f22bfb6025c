//go:build amd64 || arm64

package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// systemPaths hold what every program needs: programs, libraries, settings of the machine, and what the kernel shows.
// The last ones are the files to which links in /etc usually lead.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store",
	"/run/current-system", "/proc", "/sys",
	"/etc/resolv.conf", "/etc/hosts", "/etc/localtime", "/etc/ssl/certs", "/etc/pki",
}

// A tree is a file or a directory with all below it that a command reads from the level Landlock on.
type tree struct {
	// Mask is where it lies now.
	Mask
	writable bool
	// asked: it was named by a request.
	asked bool
	// bare: it is there, and what is read of it has rules of its own.
	bare bool
	// guarded: it is not written to, also if it lies in a writable tree.
	guarded bool
}

// A link is a symbolic link on the way to a tree.
type link struct{ path, target string }

// forest is all that a command reads.
type forest struct {
	trees []tree
	links []link
	// own are the directories of Plan.Own that do not lie in a tree.
	own []string
	// dir is the working directory without symbolic links.
	dir string
	// temporary is Plan.Temporary.
	temporary int64
	// processes: the command has a process table, and with it /proc and /dev, of its own.
	processes bool
	// terminal is the name of the terminal of the command, "" for none.
	terminal string
}

// forest resolves the paths of the plan. dir is the working directory. What a request names is looked up with the
// rights of the command's user. Where nothing is, nothing can be reached.
func (p *Plan) forest(dir string) (*forest, error) {
	f := &forest{dir: dir, temporary: p.Temporary, processes: p.Layers.Signals == ByPIDNamespace}
	err := errors.Join(
		f.add(false, slices.Concat(systemPaths, p.Server.Readable)...),
		f.add(true, p.Server.Writable...))
	f.trees = slices.DeleteFunc(f.trees, func(t tree) bool {
		return slices.ContainsFunc(p.Masks, func(m Mask) bool { return within(t.Path, m.Path) })
	})
	err = errors.Join(err, f.add(false, "/dev"))
	for i := range f.trees {
		f.trees[i].bare = f.trees[i].Path == "/dev"
	}
	err = errors.Join(err, f.add(false, p.Visible...))
	if p.Private != "" {
		err = errors.Join(err, f.add(true, p.Private))
	}
	of := len(f.trees)
	err = errors.Join(err, p.User.As(func() error {
		return errors.Join(f.add(false, p.Access.Readable...), f.add(true, p.Access.Writable...), f.addDir(dir))
	}))
	for i := range f.trees[of:] {
		f.trees[of+i].asked = true
	}
	f.addOwn(p.Own)
	err = errors.Join(err, f.guard())
	return f, errors.Join(err, f.confine(p.Roots, p.Readable))
}

// guard keeps the file of this program from being written to, renamed or removed where a directory is writable that
// contains it. The next start of the server would run what is there then.
func (f *forest) guard() error {
	path, err := os.Executable()
	if err != nil {
		return nil //nolint:nilerr // it has no file
	}
	path = existing(path)
	if !slices.ContainsFunc(f.trees, func(t tree) bool { return t.writable && within(path, t.Path) }) {
		return nil
	}
	of := len(f.trees)
	err = f.add(false, path)
	for i := range f.trees[of:] {
		f.trees[of+i].guarded = true
	}
	return err
}

// addDir adds the working directory. The root, and what the kernel shows, can be one without being writable.
func (f *forest) addDir(dir string) error {
	real, _, err := resolveLinks(dir)
	if err != nil {
		return ifThere(err) // the step that enters it says so
	}
	f.dir = real
	if real == "/" || slices.ContainsFunc(kernelFiles, func(path string) bool { return within(real, path) }) {
		return nil
	}
	return f.add(true, dir)
}

// ifThere is err, unless it says that nothing is there for us.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

// add adds what paths lead to.
func (f *forest) add(writable bool, paths ...string) error {
	for _, path := range paths {
		real, links, err := resolveLinks(path)
		if err == nil {
			var fd int
			var st unix.Stat_t
			if fd, st, err = openExactly(real); err == nil {
				_ = unix.Close(fd)
				f.links = append(f.links, links...)
				f.trees = append(f.trees, tree{Mask: maskOf(real, &st), writable: writable})
			}
		}
		if err := ifThere(err); err != nil {
			return err
		}
	}
	return nil
}

// addOwn adds the directories of a list that do not lie in a tree.
func (f *forest) addOwn(list []string) {
	for _, path := range list {
		real, links, err := resolveLinks(path)
		if err != nil {
			real, links = existing(path), nil
		}
		f.links = append(f.links, links...)
		if real != "/" && !f.holds(real) && !slices.Contains(f.own, real) {
			f.own = append(f.own, real)
		}
	}
}

// maxLinks is how many symbolic links the kernel follows on one path.
const maxLinks = 40

// resolveLinks returns where a path leads, and the symbolic links on the way.
func resolveLinks(path string) (real string, links []link, err error) {
	real, rest := "/", strings.Split(filepath.Clean(path), "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" {
			continue
		}
		next := filepath.Join(real, name)
		target, err := os.Readlink(next)
		switch {
		case errors.Is(err, unix.EINVAL): // no link
			real = next
			continue
		case err != nil:
			return "", nil, err
		case len(links) == maxLinks:
			return "", nil, &os.PathError{Op: "follow", Path: path, Err: unix.ELOOP}
		}
		links = append(links, link{next, target})
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	return real, links, nil
}

// holds reports whether path lies in one of the trees.
func (f *forest) holds(path string) bool {
	return slices.ContainsFunc(f.trees, func(t tree) bool { return within(path, t.Path) })
}

// planted are the trees that get a mount: those that do not lie in another one with the same rights. A tree comes
// after those that it lies in.
func (f *forest) planted() (list []tree) {
	sorted := slices.Clone(f.trees)
	slices.SortStableFunc(sorted, func(a, b tree) int { return strings.Compare(a.Path, b.Path) })
	for _, t := range sorted {
		if !slices.ContainsFunc(list, func(of tree) bool {
			return !of.bare && !t.guarded && within(t.Path, of.Path) && (of.writable || !t.writable)
		}) {
			list = append(list, t)
		}
	}
	return list
}

// confine returns an error if what a request has named leads out of the roots by now.
func (f *forest) confine(roots, readable []Mask) error {
	if len(roots) == 0 {
		return nil
	}
	for _, t := range f.trees {
		in := roots
		if !t.writable {
			in = slices.Concat(roots, readable)
		}
		if t.asked && !slices.ContainsFunc(in, func(root Mask) bool { return within(t.Path, root.Path) }) {
			return fmt.Errorf("isolation: %s leads out of where commands work", t.Path)
		}
	}
	return nil
}
