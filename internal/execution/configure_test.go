package execution_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/isolation"
	"reprise/store/memstore"
)

// TestEndedRunIsKeptForADay: unless its request, the server, or a later change says otherwise. Its kept files expire
// with it.
func TestEndedRunIsKeptForADay(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{Dir: t.TempDir()})
	expiry := func(key reprise.StreamKey) time.Duration {
		t.Helper()
		s, err := log.Stream(within(t), key)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(within(t))
		if err != nil {
			t.Fatal(err)
		}
		return info.End.Expires.Sub(info.End.Time)
	}
	stream := func(prefix, id string) reprise.StreamKey {
		return reprise.StreamKey{Tenant: tenant, Name: prefix + id}
	}
	finish(t, h, start(t, h, execution.Request{ID: "plain", Command: "true"}).ID)
	if got := expiry(stream("execution:", "plain")); got != 24*time.Hour {
		t.Errorf("it is kept for %v, want a day", got)
	}
	finish(t, h, start(t, h, execution.Request{ID: "files", Command: "echo x >f", Artifacts: []string{"f"}}).ID)
	age := execution.Duration(48 * time.Hour)
	change := &execution.Change{Retention: client.RetentionChange{MaxAge: &age}}
	if err := h.Configure(within(t), tenant, "files", change); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"execution:", "artifacts:"} {
		if got := expiry(stream(prefix, "files")); got != 48*time.Hour {
			t.Errorf("%s is kept for %v, want two days", prefix, got)
		}
	}

	// A change before the end holds for the files too, which are kept at the end.
	dir := t.TempDir()
	start(t, h, execution.Request{
		ID: "later", Command: "echo x >f; while [ ! -e go ]; do sleep 0.02; done", Cwd: dir, Artifacts: []string{"f"},
	})
	until(t, "it runs", func() bool { _, err := os.Stat(filepath.Join(dir, "f")); return err == nil })
	if err := h.Configure(within(t), tenant, "later", change); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	finish(t, h, "later")
	for _, prefix := range []string{"execution:", "artifacts:"} {
		if got := expiry(stream(prefix, "later")); got != 48*time.Hour {
			t.Errorf("%s of a run that was changed is kept for %v, want two days", prefix, got)
		}
	}
}

// TestDirectoryThatCannotBeUsed: a command whose directory has vanished, is a dangling or circular link, lies below a
// file, or was taken from a client on another machine does not run, and says why.
func TestDirectoryThatCannotBeUsed(t *testing.T) {
	h := openHost(t, newLog(t, memstore.New(nil), nil), execution.Options{})
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	vanished := at("vanished")
	for _, err := range []error{
		os.Mkdir(vanished, 0o755), os.Remove(vanished), os.WriteFile(at("file"), nil, 0o600),
		os.Symlink("nowhere", at("dangling")), os.Symlink("circle", at("circle")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, cwd := range map[string]string{
		"vanished": vanished, "dangling": at("dangling"), "circle": at("circle"), "below a file": at("file/sub"),
		"of another machine": "/home/nobody-here/project", "of Windows": `C:\\project`,
	} {
		ran := at("ran")
		x := finish(t, h, start(t, h, execution.Request{Command: "echo >" + ran, Cwd: cwd}).ID)
		if x.Outcome == "" || x.Outcome != execution.FailedToStart || x.Error == "" {
			t.Errorf("%s: %+v", name, x)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: the command ran", name)
		}
	}
}

// TestDirectoryThatIsClosedToItsUser: a command of another user runs neither in a directory that this user may not
// enter nor below one.
func TestDirectoryThatIsClosedToItsUser(t *testing.T) {
	nobody, err := isolation.LookupUser("nobody")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("needs root and the user nobody: ", err)
	}
	top, err := os.MkdirTemp("", "") // which others may enter, unlike that of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	closed := filepath.Join(top, "closed")
	if err := errors.Join(os.Chmod(top, 0o755), os.MkdirAll(filepath.Join(closed, "sub"), 0o755),
		os.Chmod(closed, 0o700)); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, newLog(t, memstore.New(nil), nil),
		execution.Options{Isolation: isolation.Config{User: nobody}})
	for _, cwd := range []string{closed, filepath.Join(closed, "sub")} {
		x := finish(t, h, start(t, h, execution.Request{Command: "echo ran", Cwd: cwd}).ID)
		if x.Outcome == "" || x.Outcome != execution.FailedToStart || !strings.HasPrefix(x.Error, "cwd") {
			t.Errorf("%s: %+v", cwd, x)
		}
	}
	x := finish(t, h, start(t, h, execution.Request{Command: "echo ran", Cwd: top}).ID)
	wantOutcome(t, x, execution.Exited, 0, "")
}

// TestDirectoryOfTheServerIsNamed: whoever starts a command without a directory learns where it runs, and so does
// who looks at it while it runs, after its end, and on the next server, whose own directory is another one.
func TestDirectoryOfTheServerIsNamed(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	dir := t.TempDir()
	h := openHost(t, log, execution.Options{Dir: dir, Secret: []byte("the same")})
	x, _, err := h.Start(within(t), tenant, execution.Request{ID: "x", Command: "echo up; read line", StdinOpen: true})
	if err != nil || x.Cwd != dir {
		t.Fatalf("started in %q, %v", x.Cwd, err)
	}
	await(t, h, "x", "up")
	show := func(h *execution.Host) string {
		t.Helper()
		x, err := h.Show(within(t), tenant, "x")
		if err != nil {
			t.Fatal(err)
		}
		return x.Cwd
	}
	if got := show(h); got != dir {
		t.Errorf("while it runs: %q", got)
	}
	if err := h.Cancel(within(t), tenant, "x"); err != nil {
		t.Fatal(err)
	}
	finish(t, h, "x")
	if got := show(h); got != dir {
		t.Errorf("after its end: %q", got)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if got := show(openHost(t, log, execution.Options{Dir: t.TempDir(), Secret: []byte("the same")})); got != dir {
		t.Errorf("on the next server: %q", got)
	}
}
