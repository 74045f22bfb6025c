package execution_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/isolation"
)

// TestTemporaryDirectoryOfRun: where a command cannot have a file tree of its own, it gets a directory that TMPDIR and
// HOME name, which is gone after its end. No other command reads it.
func TestTemporaryDirectoryOfRun(t *testing.T) {
	m := *isolation.Probe()
	m.Mounts = os.ErrInvalid
	config := isolation.Config{Machine: &m}
	if _, err := config.Resolve(isolation.Landlock, isolation.Access{}); err != nil {
		t.Skip(err)
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	as := []*isolation.User{nil}
	if os.Geteuid() == 0 {
		_, nobody := anotherUser(t)
		as = append(as, nobody)
		for _, dir := range []string{filepath.Dir(temp), temp} {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, config.User = range as {
		h := newHost(t, execution.Options{Dir: "/", RunsDir: t.TempDir(), Isolation: config})
		first := start(t, h, execution.Request{
			Language: "sh", Isolation: "landlock", StdinOpen: true,
			Code: `test "$TMPDIR" = "$HOME" && cd && echo secret >file && mkdir -p a/b && chmod 0 a && mktemp >/dev/null && pwd && read -r line`,
		})
		await(t, h, first.ID, "/tmp")
		dir := strings.TrimSpace(string(output(t, h, first.ID, execution.Stdout)))
		if !strings.HasPrefix(dir, temp) {
			t.Fatalf("the temporary directory is %q", dir)
		}
		other := finish(t, h, start(t, h, execution.Request{
			Command:   "cat " + dir + "/file; ls " + dir + " " + temp + "; ls -A $TMPDIR; echo $TMPDIR",
			Isolation: "landlock",
		}).ID)
		out := strings.TrimSpace(string(output(t, h, other.ID, execution.Stdout)))
		if out == dir || strings.Contains(out, "\n") || !strings.HasPrefix(out, temp) {
			t.Errorf("another command sees %q of %q", out, dir)
		}
		if err := h.Cancel(within(t), tenant, first.ID); err != nil {
			t.Fatal(err)
		}
		finish(t, h, first.ID)
		for _, path := range []string{dir, out} {
			until(t, "the directory is removed", func() bool {
				_, err := os.Lstat(filepath.Dir(path))
				return errors.Is(err, fs.ErrNotExist)
			})
		}
	}
}

// TestDirectoriesOfTenant: a confined command without a cwd works in the directory of its tenant.
func TestDirectoriesOfTenant(t *testing.T) {
	given(t, isolation.Landlock)
	ours, theirs := t.TempDir(), t.TempDir()
	h := newHost(t, execution.Options{Isolation: isolation.Config{
		Least: isolation.Landlock, Confined: true,
		Tenants: map[string]isolation.Directories{
			string(tenant): {Writable: []string{ours}}, "other": {Writable: []string{theirs}},
		},
	}})
	x := finish(t, h, start(t, h, execution.Request{Command: "pwd; echo x >file; ls " + theirs}).ID)
	if out := string(output(t, h, x.ID, execution.Stdout)); out != ours+"\n" {
		t.Errorf("it says %q", out)
	}
	for _, req := range []execution.Request{
		{Cwd: theirs},
		{Access: execution.Access{Writable: []string{theirs}}},
		{Access: execution.Access{Readable: []string{theirs}}},
	} {
		req.Command = "true"
		_, _, err := h.Start(within(t), tenant, req)
		if field, ok := errors.AsType[*execution.FieldError](err); !ok || field.Field != "isolation" {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// TestInterpreterKeepsTemporaryDirectory: all code of an interpreter has the same temporary directory, and no other
// command has it.
func TestInterpreterKeepsTemporaryDirectory(t *testing.T) {
	rules := *isolation.Probe()
	rules.Mounts = os.ErrInvalid
	for name, m := range map[string]*isolation.Machine{"mounts": isolation.Probe(), "rules": &rules} {
		t.Run(name, func(t *testing.T) {
			config := isolation.Config{Machine: m}
			if _, err := config.Resolve(isolation.Landlock, isolation.Access{}); err != nil {
				t.Skip(err)
			}
			h := newHost(t, execution.Options{Isolation: config})
			q := interpreter.Request{Language: "bash", Cwd: t.TempDir(), Isolation: "landlock"}
			one, two := openInterpreter(t, h, q), openInterpreter(t, h, q)
			const write, read = `echo kept >"${TMPDIR:-/tmp}/kept-by-one"`, `cat "${TMPDIR:-/tmp}/kept-by-one"`
			runCode(t, h, one.ID, write)
			if r := runCode(t, h, one.ID, read); r.stdout != "kept\n" {
				t.Errorf("later code reads %q, %s", r.stdout, r.stderr)
			}
			if r := runCode(t, h, two.ID, read); r.stdout != "" {
				t.Errorf("another interpreter reads %q", r.stdout)
			}
			for _, id := range []string{one.ID, two.ID} {
				if err := h.Cancel(within(t), tenant, id); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
