package execution_test

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/isolation"
	"reprise/store/memstore"
)

var levels = []isolation.Level{isolation.Limits, isolation.Landlock, isolation.Bubblewrap}

// given skips a test where this machine does not give a level.
func given(t *testing.T, level isolation.Level) {
	t.Helper()
	config := isolation.Config{}
	if _, err := config.Resolve(level, isolation.Access{}); err != nil {
		t.Skip(err)
	}
}

// masks holds paths as a server does.
func masks(t *testing.T, paths ...string) *isolation.Masks {
	t.Helper()
	m, err := isolation.OpenMasks(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// secretDir is a directory as a server has one.
func secretDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"token", "keys", "reprise.db"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestIsolationLevels: each level hides what is to be hidden, from commands and from code, and the start event, the
// view and the end event say what is in force.
func TestIsolationLevels(t *testing.T) {
	secrets := secretDir(t)
	h := newHost(t, execution.Options{
		StateDir: secrets, Isolation: isolation.Config{Masks: masks(t, secrets)},
	})
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			given(t, level)
			for name, req := range map[string]execution.Request{
				"command": {Command: "echo begin; cat " + secrets + "/token " + secrets + "/reprise.db; exit 3"},
				"code":    {Language: "sh", Code: "echo begin; cat " + secrets + "/token; exit 3"},
			} {
				req.Isolation = string(level)
				x := finish(t, h, start(t, h, req).ID)
				wantOutcome(t, x, execution.Exited, 3, "")
				if out := string(output(t, h, x.ID, execution.Stdout)); out != "begin\n" {
					t.Errorf("%s: %q", name, out)
				}
				if in := x.Isolation; in == nil || in.Level != string(level) || !in.Layers.NoNewPrivileges ||
					in.Layers.Hidden == "" {
					t.Errorf("%s: isolation %+v", name, in)
				}
			}
		})
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(secrets)
	if err != nil || len(left) != 3 {
		t.Errorf("in the directory are %v, %v", left, err)
	}
}

// TestIsolationKeepsSignals: a signal and the TERM of a cancellation reach a command at every level, with its time of
// grace.
func TestIsolationKeepsSignals(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		for _, level := range levels {
			t.Run(string(level), func(t *testing.T) {
				given(t, level)
				const trap = `trap 'echo caught; exit 7' INT TERM; echo ready; while :; do sleep 0.05; done`
				x := start(t, h, execution.Request{Command: trap, Isolation: string(level)})
				await(t, h, x.ID, "ready")
				if err := h.Signal(within(t), tenant, x.ID, "INT"); err != nil {
					t.Fatal(err)
				}
				x = finish(t, h, x.ID)
				wantOutcome(t, x, execution.Exited, 7, "")
				x = start(t, h, execution.Request{Command: trap, Isolation: string(level)})
				await(t, h, x.ID, "ready")
				if err := h.Cancel(within(t), tenant, x.ID); err != nil {
					t.Fatal(err)
				}
				x = finish(t, h, x.ID)
				wantOutcome(t, x, execution.Cancelled, 7, "")
				if out := string(output(t, h, x.ID, execution.Stdout)); out != "ready\ncaught\n" {
					t.Errorf("it wrote %q", out)
				}
			})
		}
	})
}

// TestIsolationLeavesNothing: at every level nothing outlives the end, though it leaves its session.
func TestIsolationLeavesNothing(t *testing.T) {
	h := newHost(t, execution.Options{})
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			given(t, level)
			x := start(t, h, execution.Request{
				Command:   `setsid sleep 31.25 >/dev/null 2>&1 & setsid sleep 31.25 >/dev/null 2>&1 & exit 0`,
				Isolation: string(level),
			})
			x = finish(t, h, x.ID)
			wantOutcome(t, x, execution.Exited, 0, "")
			names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, name := range names {
				text, _ := os.ReadFile(name)
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
				if strings.HasSuffix(string(text), "sleep\x0031.25\x00") && alive(pid) {
					t.Errorf("process %d is left", pid)
				}
			}
		})
	}
}

// TestIsolationRefused: what a machine does not give in full is refused and not given in part.
func TestIsolationRefused(t *testing.T) {
	m := *isolation.Probe()
	m.Mounts, m.Network = syscall.EPERM, syscall.EPERM
	m.Landlock = 2
	h := newHost(t, execution.Options{Isolation: isolation.Config{Machine: &m}})
	for _, c := range []struct {
		req    execution.Request
		reason string
	}{
		{execution.Request{Isolation: "limits"}, "needs a mount namespace"},
		{execution.Request{Isolation: "landlock"}, "needs Landlock of version 3"},
		{execution.Request{Isolation: "bubblewrap"}, "needs mounts and a process table"},
		{execution.Request{Access: execution.Access{Network: "off"}}, ""},
	} {
		c.req.Command = "true"
		_, _, err := h.Start(within(t), tenant, c.req)
		field, ok := errors.AsType[*execution.FieldError](err)
		if !ok || field.Field != "isolation" || !errors.Is(err, reprise.ErrInvalid) ||
			!strings.Contains(err.Error(), c.reason) {
			t.Errorf("%+v: %v", c.req, err)
		}
	}
	// By default it is the strongest that is left, under the name of the level that is given in full.
	x := finish(t, h, start(t, h, execution.Request{
		Command: "true", Limits: execution.Limits{MemoryBytes: 1 << 30},
	}).ID)
	if in := x.Isolation; in.Level != string(isolation.None) || !in.Layers.NoNewPrivileges || in.Layers.Hidden != "" ||
		in.Memory == "" {
		t.Errorf("isolation %+v", in)
	}
}

// TestUser: a command runs as the user of its request, or else as that of its tenant.
func TestUser(t *testing.T) {
	config := isolation.Config{Machine: &isolation.Machine{SwitchUser: errors.New("not root")}}
	_, _, err := newHost(t, execution.Options{Isolation: config}).Start(t.Context(), tenant,
		execution.Request{Command: "true", User: "nobody"})
	if field, ok := errors.AsType[*execution.FieldError](err); !ok || field.Field != "user" {
		t.Errorf("a server that is not root: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can switch to another user")
	}
	nobody, err := isolation.LookupUser("nobody")
	if err != nil {
		t.Skip(err)
	}
	config = isolation.Config{Users: map[string]*isolation.User{"theirs": nobody}}
	h := newHost(t, execution.Options{Dir: "/", Isolation: config})
	for _, c := range []struct {
		tenant     reprise.Tenant
		user, want string
	}{
		{tenant, "", "root"},
		{tenant, "nobody", "nobody"},
		{tenant, strconv.Itoa(nobody.UID), "nobody"},
		{"theirs", "", "nobody"},
		{"theirs", "root", "root"},
	} {
		x, _, err := h.Start(t.Context(), c.tenant, execution.Request{Command: "id -un", User: c.user})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "it has ended", func() bool {
			x, err = h.Show(within(t), c.tenant, x.ID)
			return err != nil || x.Status == execution.StatusEnded
		})
		var out []byte
		s, err := h.Stream(t.Context(), c.tenant, x.ID)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Reader(t.Context(), reprise.Earliest())
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range r.Events(within(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == execution.Stdout {
				out = append(out, e.Data...)
			}
		}
		r.Close()
		if string(out) != c.want+"\n" {
			t.Errorf("a command of %s for %q ran as %q", c.tenant, c.user, out)
		}
	}
	for _, user := range []string{"no-such-user", "-1", "a\x00b"} {
		_, _, err := h.Start(t.Context(), tenant, execution.Request{Command: "true", User: user})
		if field, ok := errors.AsType[*execution.FieldError](err); !ok || field.Field != "user" {
			t.Errorf("user %q: %v", user, err)
		}
	}
}

// TestExistenceIsThatOfTheUser: a request learns no more about files than the user of its command can see.
func TestExistenceIsThatOfTheUser(t *testing.T) {
	_, as := anotherUser(t)
	closed := filepath.Join(t.TempDir(), "closed")
	bin, there := filepath.Join(closed, "bin"), filepath.Join(closed, "there")
	for _, dir := range []string{closed, bin, there} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "tool"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, execution.Options{Dir: "/", Isolation: isolation.Config{User: as}})
	answers := func(path, tool string) (list []string) {
		t.Helper()
		for _, req := range []execution.Request{
			{Argv: []string{"true"}, Access: execution.Access{Hidden: []string{path}}},
			{Argv: []string{"true"}, Access: execution.Access{Writable: []string{path}}},
			{Argv: []string{"true"}, Cwd: path},
			{Argv: []string{tool}, Env: map[string]string{"PATH": bin}},
		} {
			x, _, err := h.Start(t.Context(), tenant, req)
			if err != nil {
				list = append(list, err.Error())
				continue
			}
			x = finish(t, h, x.ID)
			list = append(list, string(x.Outcome)+" "+x.Error)
		}
		for i := range list {
			list[i] = strings.NewReplacer(path, "PATH", tool, "TOOL").Replace(list[i])
		}
		return list
	}
	exists, missing := answers(there, "tool"), answers(filepath.Join(closed, "missing"), "gone")
	if !slices.Equal(exists, missing) {
		t.Errorf("what exists:\n%q\nwhat does not:\n%q", exists, missing)
	}
}

// TestLinksAreThoseOfTheUser: where a link leads that the user of a command cannot follow is not told by a server that
// keeps commands in directories.
func TestLinksAreThoseOfTheUser(t *testing.T) {
	u, as := anotherUser(t)
	given(t, isolation.Landlock)
	base := t.TempDir()
	closed, work := filepath.Join(base, "closed"), filepath.Join(base, "work")
	uid, _ := strconv.Atoi(u.Uid)
	for _, err := range []error{
		os.MkdirAll(filepath.Join(closed, "there"), 0o700), os.Chmod(closed, 0o700), os.Mkdir(work, 0o755),
		os.Chown(work, uid, uid), os.Symlink(filepath.Join(closed, "there"), filepath.Join(work, "exists")),
		os.Symlink(filepath.Join(closed, "gone"), filepath.Join(work, "absent")),
		os.Chmod(filepath.Dir(base), 0o755), os.Chmod(base, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t, execution.Options{Dir: "/", Isolation: isolation.Config{
		User: as, Least: isolation.Landlock, Confined: true,
		Directories: isolation.Directories{Writable: []string{work}},
	}})
	answer := func(name string) string {
		x, _, err := h.Start(t.Context(), tenant, execution.Request{Command: "true", Cwd: filepath.Join(work, name)})
		if err != nil {
			return strings.ReplaceAll(err.Error(), name, "LINK")
		}
		x = finish(t, h, x.ID)
		return strings.ReplaceAll(string(x.Outcome)+" "+x.Error, name, "LINK")
	}
	if exists, absent := answer("exists"), answer("absent"); exists != absent {
		t.Errorf("what exists: %q, what does not: %q", exists, absent)
	}
}

// anotherUser returns the user nobody.
func anotherUser(t *testing.T) (u *user.User, as *isolation.User) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can switch to another user")
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return u, &isolation.User{Name: u.Username, UID: uid, GID: gid, Home: u.HomeDir}
}

// TestCodeOfAnotherUserIsRemoved: it is in no directory of ours, and gone after the end of its execution.
func TestCodeOfAnotherUserIsRemoved(t *testing.T) {
	_, as := anotherUser(t)
	temp := t.TempDir()
	for _, dir := range []string{filepath.Dir(temp), temp} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", temp)
	folders := func() []string {
		found, err := filepath.Glob(filepath.Join(temp, "reprise-code-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	gone := func(h *execution.Host, ids ...string) {
		t.Helper()
		for _, id := range ids {
			wantOutcome(t, finish(t, h, id), execution.Exited, 0, "")
		}
		until(t, "the code is removed", func() bool { return len(folders()) == 0 })
	}
	log := newLog(t, memstore.New(nil), nil)
	opts := execution.Options{RunsDir: t.TempDir(), Dir: "/", Isolation: isolation.Config{User: as}}
	leave(t, log, opts, func(h *execution.Host) {
		start(t, h, execution.Request{ID: "ends", Language: "sh", Code: "echo one"})
		gone(h, "ends")
		start(t, h, execution.Request{ID: "goes", Language: "sh", Code: "echo one; sleep 0.3"})
		start(t, h, execution.Request{ID: "removed", Language: "sh", Code: "echo one; sleep 1000"})
		for _, id := range []string{"goes", "removed"} {
			await(t, h, id, "one")
		}
		if found := folders(); len(found) != 2 {
			t.Errorf("code in %q", found)
		}
	})
	if err := log.Remove(t.Context(), reprise.StreamKey{Tenant: tenant, Name: "execution:removed"}); err != nil {
		t.Fatal(err)
	}
	gone(openHost(t, log, opts), "goes")
}

// TestRunAs: commands run as another user, in its home, and code is readable for it.
func TestRunAs(t *testing.T) {
	u, as := anotherUser(t)
	secrets := secretDir(t)
	h := newHost(t, execution.Options{Dir: "/", StateDir: secrets, Isolation: isolation.Config{
		Masks: masks(t, secrets),
		User:  as,
	}})
	for _, level := range append(levels, isolation.None) {
		t.Run(string(level), func(t *testing.T) {
			given(t, level)
			x := finish(t, h, start(t, h, execution.Request{
				Language: "sh",
				Code: `id -u; id -g; id -G; echo $USER $HOME; cat ` + secrets +
					`/token; grep CapEff /proc/self/status`,
				Isolation: string(level),
			}).ID)
			want := u.Uid + "\n" + u.Gid + "\n" + u.Gid + "\n" + u.Username + " " + u.HomeDir +
				"\nCapEff:\t0000000000000000\n"
			if out := string(output(t, h, x.ID, execution.Stdout)); out != want {
				t.Errorf("%q, want %q; %s", out, want, output(t, h, x.ID, execution.Stderr))
			}
			if x.Isolation.Layers.User != u.Username {
				t.Errorf("isolation %+v", x.Isolation)
			}
		})
	}
}
