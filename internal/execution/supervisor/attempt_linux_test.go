package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/execution/command"
	"reprise/internal/spawn"
)

// TestSupervisorThatComesTooLate: an order of an attempt that a later server has given up starts nothing.
func TestSupervisorThatComesTooLate(t *testing.T) {
	spawner := spawn.New()
	defer spawner.Close()
	s, err := OpenPool(t.TempDir(), spawner, Options{MaxIdle: 1, DisableCgroups: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir := s.Remote("epoch").Dir
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, BriefFile), []byte(`{"attempt":"second"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "started")
	late := &Order{
		Dir: dir, Attempt: "first",
		Plan: &command.Plan{
			Argv: []string{"touch", file}, Cwd: "/", Environ: []string{"PATH=" + os.Getenv("PATH")},
			Mark: "MARK=epoch",
		},
	}
	if _, _, err := s.Give(late, nil); err == nil || !strings.HasSuffix(err.Error(), errOutOfDate.Error()) {
		t.Errorf("the order is answered with %v", err)
	}
	if _, err := os.Stat(file); err == nil || HasBegun(dir) {
		t.Errorf("it was started: %v, has begun %t", err, HasBegun(dir))
	}
	lock, err := Lock(dir)
	if err != nil {
		t.Fatalf("the directory is not free: %v", err)
	}
	_ = lock.Close()
}

// TestRunIsNotEndedByARename: the directory of a run is gone when it was removed, and not while somebody has given
// another name to a directory above it.
func TestRunIsNotEndedByARename(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	dir := filepath.Join(runs, "epoch")
	if err := errors.Join(os.Mkdir(runs, 0o700), Create(dir)); err != nil {
		t.Fatal(err)
	}
	p, err := openPlace(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := os.Rename(runs, runs+"-moved"); err != nil {
		t.Fatal(err)
	}
	if p.removed() {
		t.Error("what was renamed counts as removed")
	}
	if err := os.RemoveAll(runs + "-moved"); err != nil {
		t.Fatal(err)
	}
	if !p.removed() {
		t.Error("what was removed is there")
	}
}
