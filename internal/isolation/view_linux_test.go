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
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutViews is this machine without mount namespaces, as in a container.
func withoutViews() *Machine {
	m := *Probe()
	m.Mounts = errNotLinux
	return &m
}

// eachReading calls f for each way in which reading is bound.
func eachReading(t *testing.T, f func(t *testing.T, level Level, m *Machine)) {
	t.Helper()
	for _, c := range []struct {
		name  string
		level Level
		m     *Machine
	}{
		{"landlock_with_mounts", Landlock, Probe()},
		{"landlock_with_rules", Landlock, withoutViews()},
		{"bubblewrap", Bubblewrap, Probe()},
	} {
		t.Run(c.name, func(t *testing.T) { f(t, c.level, c.m) })
	}
}

// reads are commands that read the file $OTHER/file, or learn names in $OTHER, which is open to nobody.
var reads = map[string]string{
	"by name":                 `cat $OTHER/file`,
	"by a link":               `ln -s $OTHER/file link; cat link; rm link`,
	"by a link to the parent": `ln -s $(dirname $OTHER) up; cat up/other/file; rm up`,
	"by a hard link":          `ln $OTHER/file hard && cat hard; rm -f hard`,
	"through our own root":    `cat /proc/self/root$OTHER/file`,
	"through our parent":      `cat /proc/$PPID/root$OTHER/file`,
	"through a victim":        `cat /proc/$VICTIM/root$OTHER/file`,
	"through its directory":   `cat /proc/$VICTIM/cwd/../other/file`,
	"as a program":            `sh $OTHER/file`,
	"by the names":            `ls $OTHER | grep -q file && echo done`,
	"by moving it here":       `mv $OTHER moved && cat moved/file; mv moved $OTHER`,
	"by upper directories":    `cat ../other/file`,
	"in a new namespace":      `unshare -Urm sh -c 'mount --bind $OTHER . && cat file'`,
}

// TestReadsOnlyWhatIsOpen: from the level landlock on, what nobody has opened cannot be read.
func TestReadsOnlyWhatIsOpen(t *testing.T) {
	f := newField(t)
	other := filepath.Join(filepath.Dir(f.work), "other")
	must(t, os.Mkdir(other, 0o755))
	must(t, os.WriteFile(filepath.Join(other, "file"), []byte("echo "+secret+"\n"), 0o755))
	env := append(f.env, "OTHER="+other)
	for name, command := range reads {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if out, _ := shell(t, resolve(t, Config{}, None, Access{}), f.work, command, env...); !succeeded(out) {
				if strings.HasPrefix(name, "through") || name == "in a new namespace" {
					t.Skipf("without isolation it does not succeed either: %s", out)
				}
				t.Fatalf("without isolation it does not succeed either: %s", out)
			}
			eachReading(t, func(t *testing.T, level Level, m *Machine) {
				p := resolve(t, Config{Machine: m}, level, Access{})
				if out, _ := shell(t, p, f.work, command, env...); succeeded(out) {
					t.Errorf("it succeeds: %s", out)
				}
			})
		})
	}
}

// TestReadsWhatIsOpen: what the system, the server and the request open is read, and only what is writable is written.
func TestReadsWhatIsOpen(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"work", "home/deep", "server", "request", "into", "server/writable"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name, "file"), []byte(name+"\n"), 0o644))
	}
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("request", link))
	must(t, os.Symlink(filepath.Join(dir, "work"), filepath.Join(dir, "also-work")))
	t.Setenv("HOME", filepath.Join(dir, "home"))
	eachReading(t, func(t *testing.T, level Level, m *Machine) {
		config := Config{Machine: m, Directories: Directories{
			Readable: []string{filepath.Join(dir, "server"), filepath.Join(dir, "home/deep")},
			Writable: []string{filepath.Join(dir, "into"), filepath.Join(dir, "server/writable")},
		}}
		p := resolve(t, config, level, Access{Readable: []string{link}})
		work := filepath.Join(dir, "also-work")
		for command, want := range map[string]string{
			"cat file ../link/file ../server/file":    "work\nrequest\nserver",
			"cat ../into/file ../home/deep/file":      "into\nhome/deep",
			"cat " + work + "/file " + link + "/file": "work\nrequest",
			"pwd -P": filepath.Join(dir, "work"),
			"echo a >new && echo b >../into/new && cat new ../into/new; rm new ../into/new": "a\nb",
			"echo c >../server/writable/new && cat ../server/writable/new":                  "c",
			"(echo a >../server/new) 2>/dev/null || echo no":                                "no",
			"(echo a >../request/new) 2>/dev/null || echo no":                               "no",
			"(echo a >../home/deep/new) 2>/dev/null || echo no":                             "no",
			"(echo a >/usr/new-file) 2>/dev/null || echo no":                                "no",
			"(echo a >/new-file) 2>/dev/null || echo no":                                    "no",
			"(mkdir ../server/made) 2>/dev/null || echo no":                                 "no",
			"head -c 1 /dev/zero | wc -c; echo x >/dev/null; test -r /etc/passwd; echo $?":  "1\n0",
			"test -e /proc/self/status && ls /sys/class >/dev/null && echo seen":            "seen",
		} {
			if out, _ := shell(t, p, work, command); out != want {
				t.Errorf("%s: %q, want %q", command, out, want)
			}
		}
	})
}

// TestWorksAtRoot: the root, and what the kernel shows, can be the working directory without being open.
func TestWorksAtRoot(t *testing.T) {
	other := t.TempDir()
	must(t, os.WriteFile(filepath.Join(other, "file"), []byte(secret), 0o644))
	eachReading(t, func(t *testing.T, level Level, m *Machine) {
		for _, dir := range []string{"/", "/proc", "/sys"} {
			p := resolve(t, Config{Machine: m}, level, Access{})
			const command = `pwd; echo x >new; cat $OTHER/file; cat .$OTHER/file`
			out, _ := shell(t, p, dir, command, "OTHER="+other)
			if !strings.HasPrefix(out, dir+"\n") || succeeded(out) {
				t.Errorf("in %s: %s", dir, out)
			}
			if err := os.Remove(filepath.Join(dir, "new")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("in %s a file was made: %v", dir, err)
			}
		}
		for _, path := range []string{"/", "/..", "/proc", "/proc/self/root", "/sys/fs"} {
			wantRefused(t, Config{Machine: m}, level, Access{Readable: []string{path}})
			wantRefused(t, Config{Machine: m}, level, Access{Writable: []string{path}})
		}
	})
}

// TestTemporaryDirectoriesAreOwn: no command sees the temporary files of another one, nor those of the machine.
func TestTemporaryDirectoriesAreOwn(t *testing.T) {
	name := fmt.Sprintf("isolation-test-%d", os.Getpid())
	t.Setenv("HOME", t.TempDir())
	shared := []string{"/tmp", "/var/tmp", sharedMemory, os.Getenv("HOME")}
	for _, dir := range shared {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte(secret), 0o666))
		t.Cleanup(func() { _ = os.Remove(file) })
	}
	work := t.TempDir()
	eachReading(t, func(t *testing.T, level Level, m *Machine) {
		p := resolve(t, Config{Machine: m}, level, Access{})
		for _, dir := range shared {
			file := filepath.Join(dir, name)
			const command = `cat $FILE; echo x >$FILE; ls $DIR | grep isolation-test && echo done`
			out, _ := shell(t, p, work, command, "FILE="+file, "DIR="+dir)
			if text, err := os.ReadFile(file); succeeded(out) || err != nil || string(text) != secret {
				if p.Layers.Temporary == ByDirectory || string(text) != secret {
					t.Errorf("%s: %s; it is %q, %v", dir, out, text, err)
				}
			}
		}
		if p.Layers.Temporary != ByMounts {
			return
		}
		for _, dir := range shared {
			const command = `echo mine >$DIR/own && mkdir $DIR/d && cat $DIR/own && ls -d $DIR/own $DIR/d`
			if out, code := shell(t, p, work, command, "DIR="+dir); code != 0 || out != "mine\n"+dir+"/d\n"+dir+"/own" {
				t.Errorf("%s: %d, %s", dir, code, out)
			}
		}
		ours, err := os.Readlink("/proc/self/ns/ipc")
		must(t, err)
		if out, _ := shell(t, p, work, "readlink /proc/self/ns/ipc"); !strings.HasPrefix(out, "ipc:") || out == ours {
			t.Errorf("the IPC namespace is %s, ours %s", out, ours)
		}
	})
}

// TestTemporaryDirectoryThatIsOpen: what the server opens in a temporary directory is there for its commands.
func TestTemporaryDirectoryThatIsOpen(t *testing.T) {
	for _, parent := range []string{"/tmp", sharedMemory} {
		dir, err := os.MkdirTemp(parent, "isolation-*")
		must(t, err)
		defer os.RemoveAll(dir)
		must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("there"), 0o644))
		eachReading(t, func(t *testing.T, level Level, m *Machine) {
			p := resolve(t, Config{Machine: m, Directories: Directories{Writable: []string{dir}}}, level, Access{})
			out, _ := shell(t, p, "/", "cat $DIR/file; echo x >$DIR/new && cat $DIR/new; rm $DIR/new", "DIR="+dir)
			if out != "therex" {
				t.Errorf("%s: %s", dir, out)
			}
		})
	}
}

// TestPrivateDirectory: without a view, the temporary directory that was made for a command is open to it alone.
func TestPrivateDirectory(t *testing.T) {
	m := withoutViews()
	hidden := t.TempDir() // like the directory of the server
	one, two := filepath.Join(hidden, "one"), filepath.Join(hidden, "two")
	must(t, errors.Join(os.Mkdir(one, 0o700), os.Mkdir(two, 0o700)))
	must(t, os.WriteFile(filepath.Join(two, "file"), []byte(secret), 0o600))
	p := resolve(t, Config{Machine: m, Masks: masks(t, hidden)}, Landlock, Access{})
	p.Private = one
	const command = "echo mine >$ONE/file && cat $ONE/file; cat $TWO/file; ls $TWO $ONE/.."
	out, _ := shell(t, p, "/", command, "ONE="+one, "TWO="+two)
	if !strings.HasPrefix(out, "mine\n") || succeeded(out) || slices.Contains(strings.Split(out, "\n"), "two") {
		t.Error(out)
	}
}

// TestReadableStaysWithinRoots: a confined command reads in the directories of the server alone, also if a link is put
// in the place of a directory after the request was taken.
func TestReadableStaysWithinRoots(t *testing.T) {
	f := newField(t)
	library := filepath.Join(filepath.Dir(f.work), "library")
	inside := filepath.Join(f.work, "inside")
	must(t, errors.Join(os.Mkdir(library, 0o755), os.Mkdir(inside, 0o755)))
	must(t, os.WriteFile(filepath.Join(f.outside, "file"), []byte(secret), 0o644))
	for _, m := range []*Machine{Probe(), withoutViews()} {
		config := Config{Machine: m, Confined: true, Directories: Directories{
			Writable: []string{f.work}, Readable: []string{library},
		}}
		for _, level := range files {
			if level == Bubblewrap && m.Mounts != nil {
				continue
			}
			for _, path := range []string{f.outside, filepath.Dir(f.work), "/etc", f.data} {
				wantRefused(t, config, level, Access{Readable: []string{path}})
			}
			resolve(t, config, level, Access{Readable: []string{library, f.work, inside}})
			p := resolve(t, config, level, Access{Dir: f.work, Readable: []string{inside}})
			must(t, os.Rename(inside, inside+".moved"))
			must(t, os.Symlink(f.outside, inside))
			if out := tryShell(t, p, f.work, "cat inside/file $OUTSIDE/file", f.env...); succeeded(out) {
				t.Errorf("%s where a link took the place of the directory: %s", level, out)
			}
			must(t, os.Remove(inside))
			must(t, os.Rename(inside+".moved", inside))
		}
	}
}

// TestDirectoriesOfTenants: each tenant gets its own directories beside those of all, and one without any gets nothing
// if commands are confined.
func TestDirectoriesOfTenants(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"acme", "globex", "all"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name, "file"), []byte(name+"\n"), 0o644))
	}
	eachReading(t, func(t *testing.T, level Level, m *Machine) {
		config := Config{
			Machine: m, Confined: true, Directories: Directories{Readable: []string{filepath.Join(dir, "all")}},
			Tenants: map[string]Directories{
				"acme":   {Writable: []string{filepath.Join(dir, "acme")}},
				"globex": {Writable: []string{filepath.Join(dir, "globex")}},
			},
		}
		acme, err := config.For("acme")
		must(t, err)
		wantRefused(t, acme, level, Access{Dir: filepath.Join(dir, "globex")})
		wantRefused(t, acme, level, Access{Readable: []string{filepath.Join(dir, "globex")}})
		p := resolve(t, acme, level, Access{})
		out, _ := shell(t, p, filepath.Join(dir, "acme"), "cat ../acme/file ../globex/file ../all/file 2>/dev/null")
		if strings.Contains(out, "globex") || !strings.Contains(out, "acme") || !strings.Contains(out, "all") {
			t.Error(out)
		}
		initech, err := config.For("initech")
		must(t, err)
		wantRefused(t, initech, level, Access{})
	})
}

// TestDirectoryThatMoves flips the working directory of a command between one of its own and one of somebody else,
// while commands are started in it.
func TestDirectoryThatMoves(t *testing.T) {
	f := newField(t)
	here := filepath.Join(f.work, "here")
	must(t, os.Mkdir(here, 0o755))
	must(t, os.WriteFile(filepath.Join(f.outside, "file"), []byte(secret), 0o644))
	away := filepath.Join(f.work, "away")
	must(t, os.Symlink(f.outside, away))
	stop := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, here, unix.AT_FDCWD, away, unix.RENAME_EXCHANGE)
			}
		}
	})
	defer flipping.Wait()
	defer close(stop)
	eachReading(t, func(t *testing.T, level Level, m *Machine) {
		config := Config{Machine: m, Confined: true, Directories: Directories{Writable: []string{f.work}}}
		started := 0
		for range 60 {
			p, err := config.Resolve(level, Access{Dir: here})
			if _, refused := errors.AsType[*RefusedError](err); refused {
				continue
			}
			must(t, err)
			out := tryShell(t, p, here, "echo started; cat file ./here/file; echo x >new", f.env...)
			if started += strings.Count(out, "started"); succeeded(out) {
				t.Fatal(out)
			}
		}
		if _, err := os.Stat(filepath.Join(f.outside, "new")); err == nil {
			t.Error("a file was made outside")
		}
		t.Logf("%d started", started)
	})
}

// TestViewOfAnotherUser: the view has the modes that the other user needs whatever our umask is, and shows nothing that
// the other user could not reach.
func TestViewOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := os.MkdirTemp("", "isolation-*")
	must(t, err)
	defer os.RemoveAll(dir)
	work, closed := filepath.Join(dir, "work"), filepath.Join(dir, "closed")
	must(t, errors.Join(os.Chmod(dir, 0o755), os.Mkdir(work, 0o755), os.Chown(work, 1234, 1234)))
	open := filepath.Join(closed, "open")
	must(t, errors.Join(os.Mkdir(closed, 0o700), os.Mkdir(open, 0o755)))
	must(t, os.WriteFile(filepath.Join(open, "file"), []byte(secret), 0o644))
	defer unix.Umask(unix.Umask(0o077))
	user := &User{Name: "build", UID: 1234, GID: 1234, Home: "/home/of-nobody"}
	eachReading(t, func(t *testing.T, level Level, m *Machine) {
		p := resolve(t, Config{Machine: m, User: user}, level, Access{Readable: []string{open}})
		out, code := shell(t, p, work, "echo x >new && umask; cat $OPEN/file", "OPEN="+open)
		if !strings.HasPrefix(out, "0077") || succeeded(out) {
			t.Errorf("%d: %s", code, out)
		}
		if p.Layers.Temporary != ByMounts {
			return
		}
		const own = "cd && echo x >file && echo x >/tmp/file && echo x >/var/tmp/file && ls -A / >/dev/null && echo written"
		if out, _ := shell(t, p, work, own, "HOME="+user.Home); out != "written" {
			t.Error(out)
		}
	})
}

// TestRequestDoesNotOpenBelowMasks: what lies below a masked directory is out of reach too, by any member of a request.
func TestRequestDoesNotOpenBelowMasks(t *testing.T) {
	f := newField(t)
	below := filepath.Join(f.data, "below")
	must(t, os.Mkdir(below, 0o755))
	must(t, os.WriteFile(filepath.Join(below, "file"), []byte(secret), 0o644))
	must(t, os.Symlink(below, filepath.Join(f.work, "link")))
	eachReading(t, func(t *testing.T, level Level, m *Machine) {
		config := Config{Machine: m, Masks: masks(t, f.data)}
		for _, path := range []string{below, filepath.Join(f.work, "link"), filepath.Join(below, "file")} {
			for _, want := range []Access{{Dir: path}, {Writable: []string{path}}, {Readable: []string{path}}} {
				dir := f.work
				if want.Dir != "" {
					dir = want.Dir
				}
				p, err := config.Resolve(level, want)
				if _, refused := errors.AsType[*RefusedError](err); refused {
					continue
				}
				must(t, err)
				out := tryShell(t, p, dir, "cat file link/file $DATA/below/file; echo x >$DATA/below/new", f.env...)
				if succeeded(out) {
					t.Errorf("%+v: %s", want, out)
				}
				if os.Remove(filepath.Join(below, "new")) == nil {
					t.Errorf("%+v: a file was made", want)
				}
			}
		}
	})
}

// TestRootReadsNoSecretsOfTheSystem: a command that is root does not read the digests of passwords from landlock on,
// unless somebody has opened them by name.
func TestRootReadsNoSecretsOfTheSystem(t *testing.T) {
	if os.Geteuid() != 0 || Probe().lacksViews() != nil {
		t.Skip("only root reads them, and only mounts hide them")
	}
	const read = "cat /etc/shadow /etc/gshadow; ls /etc/ssl/private; cat /etc/passwd >/dev/null && echo others"
	for _, level := range files {
		if out, _ := shell(t, resolve(t, Config{}, level, Access{}), t.TempDir(), read); strings.Contains(out,
			"root:") ||
			strings.Contains(out, ".key") || !strings.Contains(out, "others") {
			t.Errorf("%s: %q", level, out)
		}
		open := Config{Directories: Directories{Readable: []string{"/etc"}}}
		if out, _ := shell(t, resolve(t, open, level, Access{}), t.TempDir(), read); !strings.Contains(out, "root:") {
			t.Errorf("%s, with /etc open: %q", level, out)
		}
	}
}

// TestProgramIsNotReplaced: the file of this program stays in a directory that is writable.
func TestProgramIsNotReplaced(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	const replace = `cp -p $SELF $DIR/new && mv $DIR/new $SELF && echo replaced; rm -f $DIR/new
		mv $SELF $DIR/old && mv $DIR/old $SELF && echo moved; test -x $SELF && echo there`
	for _, level := range files {
		p := resolve(t, Config{Directories: Directories{Writable: []string{filepath.Dir(self), dir}}}, level, Access{})
		if p.Layers.Readable != ByMounts {
			t.Skip("rules of Landlock have no exceptions")
		}
		out, _ := shell(t, p, dir, replace, "SELF="+self, "DIR="+filepath.Dir(self))
		if !strings.HasSuffix(out, "there") || strings.Contains(out, "replaced\n") || strings.Contains(out, "moved\n") {
			t.Errorf("%s: %s", level, out)
		}
	}
}

// TestTemporaryFilesAreBounded: a command gets no more memory by its temporary directories than the plan says.
func TestTemporaryFilesAreBounded(t *testing.T) {
	for _, level := range files {
		p := resolve(t, Config{}, level, Access{})
		if p.Layers.Temporary != ByMounts {
			t.Skip("temporary directories are on a disk")
		}
		const write = "for dir in /tmp /var/tmp /dev/shm /dev; do " +
			"head -c 8M /dev/zero >$dir/x && echo written; rm $dir/x; done; true"
		if out, _ := shell(t, p, t.TempDir(), write); strings.Count(out, "written") != 3 {
			t.Errorf("%s, without a bound: %q", level, out)
		}
		p.Temporary = 4 << 20
		if out, _ := shell(t, p, t.TempDir(), write); strings.Contains(out, "written") {
			t.Errorf("%s: %q", level, out)
		}
	}
}
