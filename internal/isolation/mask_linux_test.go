//go:build amd64 || arm64

package isolation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// wantRefused resolves a request that is to be refused.
func wantRefused(t *testing.T, c Config, level Level, want Access) {
	t.Helper()
	p, err := c.Resolve(level, want)
	if _, ok := errors.AsType[*RefusedError](err); !ok {
		t.Errorf("%s, %+v: %+v, %v", level, want, p, err)
	}
}

// TestRequestCannotUncoverMasks: what a request hides is never in the place of what the server hides.
func TestRequestCannotUncoverMasks(t *testing.T) {
	f := newField(t)
	t.Setenv("TMPDIR", f.work)
	link := filepath.Join(f.work, "link")
	must(t, os.Symlink("/", link))
	config := Config{Masks: masks(t, f.data), Directories: f.open}
	for _, level := range allLevels {
		for _, path := range []string{
			"/", "/..", "/proc/self/root", "/proc/self/root/proc/../..", link, filepath.Dir(f.data),
			link + filepath.Dir(f.data), "/proc", "/proc/self/ns", "/sys/fs", "/dev/null",
		} {
			wantRefused(t, config, level, Access{Hidden: []string{path}})
		}
		p := resolve(t, config, level, Access{Hidden: []string{f.outside, f.data, filepath.Join(f.data, "token")}})
		out, _ := shell(t, p, f.work, "cat $DATA/token $OUTSIDE/file; ls $OUTSIDE", f.env...)
		if strings.Contains(out, secret) || strings.HasSuffix(out, "file") {
			t.Errorf("%s: %s", level, out)
		}
	}
}

// TestLinksDoNotLeadToMasks: neither the working directory nor a writable one leads to what is masked.
func TestLinksDoNotLeadToMasks(t *testing.T) {
	f := newField(t)
	t.Setenv("TMPDIR", f.work)
	link := filepath.Join(f.work, "link")
	must(t, os.Symlink(f.data, link))
	without := *Probe()
	without.Mounts = errNotLinux
	for name, machine := range map[string]*Machine{"mounts": nil, "rules": &without} {
		config := Config{Masks: masks(t, f.data), Machine: machine, Directories: f.open}
		for _, level := range allLevels {
			if level == Bubblewrap && machine != nil {
				continue
			}
			for dir, writable := range map[string][]string{link: nil, f.work: {link}, f.data: nil} {
				p, err := config.Resolve(level, Access{Writable: writable})
				if _, ok := errors.AsType[*RefusedError](err); ok {
					continue
				}
				must(t, err)
				const command = "cat token link/token $DATA/token; echo x >link/new; echo x >$DATA/new"
				if out := tryShell(t, p, dir, command, f.env...); strings.Contains(out, secret) {
					t.Errorf("%s with %s in %s, writable %q: %s", level, name, dir, writable, out)
				}
				if _, err := os.Stat(filepath.Join(f.data, "new")); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("%s with %s in %s, writable %q: a file was made", level, name, dir, writable)
				}
			}
		}
	}
}

// tryShell is shell for a start that may fail.
func tryShell(t *testing.T, p *Plan, dir, command string, env ...string) string {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	process, err := p.Start("/bin/sh", []string{"sh", "-c", command}, &os.ProcAttr{
		Dir: dir, Files: []*os.File{nil, w, w}, Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...),
	})
	w.Close()
	if err != nil {
		return err.Error()
	}
	buf := make([]byte, 1<<16)
	n := 0
	for {
		m, err := r.Read(buf[n:])
		if n += m; err != nil {
			break
		}
	}
	_, err = process.Wait()
	must(t, err)
	return string(buf[:n])
}

// TestMaskFollowsWhatIsMoved: a directory above the masked one is renamed, and another one with the same names is in
// its place.
func TestMaskFollowsWhatIsMoved(t *testing.T) {
	for _, level := range allLevels {
		for _, byRules := range []bool{false, true} {
			if byRules && level == Bubblewrap {
				continue
			}
			f := newField(t)
			t.Setenv("TMPDIR", f.work)
			m := *Probe()
			if byRules {
				m.Mounts = errNotLinux
			}
			parent := filepath.Dir(f.data)
			// The directory with the tests' files is one above, so that it can be renamed.
			open := Directories{Readable: []string{filepath.Dir(parent)}}
			config := Config{Masks: masks(t, f.data), Machine: &m, Directories: open}
			before := resolve(t, config, level, Access{})
			moved := parent + ".moved"
			must(t, os.Rename(parent, moved))
			must(t, os.MkdirAll(f.data, 0o700))
			must(t, os.MkdirAll(f.work, 0o700))
			command := "echo started; cat $DATA/token " + filepath.Join(moved, "data", "token")
			for name, p := range map[string]*Plan{"before": before, "after": resolve(t, config, level, Access{})} {
				out := tryShell(t, p, "/usr", command, f.env...)
				if strings.Contains(out, secret) || name == "after" && !strings.HasPrefix(out, "started") {
					t.Errorf("%s, rules %t, a plan of %s: %s", level, byRules, name, out)
				}
			}
			must(t, os.RemoveAll(parent))
			must(t, os.Rename(moved, parent))
		}
	}
}

// TestMaskOfFileThatIsReplaced: both the new file and the one that was moved away are masked, and a removed one is
// forgotten.
func TestMaskOfFileThatIsReplaced(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pem")
	m := masks(t, key, filepath.Join(dir, "absent"))
	want := func(paths ...string) {
		t.Helper()
		now, err := m.Current()
		must(t, err)
		if got := (&Plan{Masks: now}).Masked(); strings.Join(got, " ") != strings.Join(paths, " ") {
			t.Errorf("masked are %q, want %q", got, paths)
		}
	}
	want()
	must(t, os.WriteFile(key, []byte("one"), 0o600))
	want(key)
	must(t, os.Rename(key, key+".old"))
	want(key + ".old")
	must(t, os.WriteFile(key, []byte("two"), 0o600))
	want(key+".old", key)
	must(t, os.Remove(key+".old"))
	want(key)
	for range maxMoved {
		must(t, os.Rename(key, filepath.Join(t.TempDir(), "key.pem")))
		must(t, os.WriteFile(key, []byte("more"), 0o600))
		if _, err := m.Current(); err != nil {
			return
		}
	}
	t.Errorf("more than %d files are held for one path", maxMoved)
}

// TestLeastLevelHoldsForDefault: no command runs below the least level, whatever the request and the machine.
func TestLeastLevelHoldsForDefault(t *testing.T) {
	bare := *Probe()
	bare.Mounts, bare.Landlock = errNotLinux, 0
	for _, c := range []struct {
		level, least, asked, want Level
		machine                   *Machine
	}{
		{"", "", "", Limits, nil},
		{"", "", "", None, &bare},
		{"", None, "", None, &bare},
		{"", Limits, "", "", &bare},
		{"", Landlock, "", "", &bare},
		{"", Bubblewrap, "", "", &bare},
		{None, Limits, "", "", &bare},
		{"", Landlock, "", Landlock, nil},
		{Limits, Landlock, "", Landlock, nil},
		{Landlock, Limits, "", Landlock, nil},
		{"", Landlock, Limits, "", nil},
		{"", Landlock, None, "", nil},
		{"", Landlock, Landlock, Landlock, nil},
	} {
		config := Config{Level: c.level, Least: c.least, Machine: c.machine}
		if c.want == "" {
			wantRefused(t, config, c.asked, Access{})
			continue
		}
		if p, err := config.Resolve(c.asked, Access{}); err != nil || p.Level != c.want {
			t.Errorf("%q, least %q, asked %q: %+v, %v; want %q", c.level, c.least, c.asked, p, err, c.want)
		}
	}
}

// TestRequestStaysWithinRoots: with roots, neither the working directory nor a writable directory of a request lies
// elsewhere, also if a link is put in its place after the request was taken.
func TestRequestStaysWithinRoots(t *testing.T) {
	f := newField(t)
	t.Setenv("TMPDIR", t.TempDir())
	inside, deeper := filepath.Join(f.work, "inside"), filepath.Join(f.work, "inside", "deeper")
	must(t, os.MkdirAll(deeper, 0o700))
	must(t, os.Mkdir(filepath.Join(f.outside, "deeper"), 0o700))
	must(t, os.Symlink(f.outside, filepath.Join(f.work, "link")))
	config := Config{Masks: masks(t, f.data), Confined: true, Directories: Directories{Writable: []string{f.work}}}
	for _, level := range files {
		for _, dir := range []string{
			"/", f.outside, filepath.Dir(f.work), f.data, filepath.Join(f.work, "link"), "/proc/self/cwd/..",
		} {
			wantRefused(t, config, level, Access{Dir: dir})
			wantRefused(t, config, level, Access{Dir: f.work, Writable: []string{dir}})
		}
		const write = "echo x >new && echo written; echo x >$OUTSIDE/new; cat $DATA/token"
		for _, dir := range []string{f.work, inside, filepath.Join(f.work, "absent", "..", "inside")} {
			p := resolve(t, config, level, Access{Dir: dir})
			out, _ := shell(t, p, dir, write, f.env...)
			if !slices.Contains(strings.Split(out, "\n"), "written") || strings.Contains(out, secret) {
				t.Errorf("%s in %s: %s", level, dir, out)
			}
		}
		for _, dir := range []string{inside, deeper} {
			p := resolve(t, config, level, Access{Dir: dir, Writable: []string{dir}})
			must(t, os.Rename(inside, inside+".moved"))
			must(t, os.Symlink("../outside", inside))
			if out := tryShell(t, p, dir, write, f.env...); strings.Contains(out, "written") {
				t.Errorf("%s in %s where a link took the place of the directory: %s", level, dir, out)
			}
			must(t, os.Remove(inside))
			must(t, os.Rename(inside+".moved", inside))
		}
		if _, err := os.Stat(filepath.Join(f.outside, "new")); err == nil {
			t.Fatalf("%s: a file was made outside", level)
		}
	}
}

// TestOpenExactly: a link that took the place of a name, anywhere in the path, is not followed.
func TestOpenExactly(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, errors.Join(err, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700),
		os.Symlink("a", filepath.Join(dir, "link")), os.Symlink("b", filepath.Join(dir, "a/link"))))
	for _, path := range []string{dir, dir + "/a", dir + "/a/b", "/"} {
		fd, st, err := openExactly(path)
		must(t, err)
		var want unix.Stat_t
		must(t, errors.Join(unix.Close(fd), unix.Lstat(path, &want)))
		if !sameFile(&st, &want) {
			t.Errorf("%s: another file", path)
		}
	}
	for _, path := range []string{dir + "/link", dir + "/link/b", dir + "/a/link", "/proc/self/root", dir + "/none"} {
		if fd, _, err := openExactly(path); err == nil {
			t.Errorf("%s was opened", path)
			must(t, unix.Close(fd))
		}
	}
}
