package execution

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/execution/command"
	"reprise/internal/spawn"
	"reprise/internal/supervisor"
)

// TestSupervisorThatComesTooLate: an order of an attempt that a later server has given up starts nothing.
func TestSupervisorThatComesTooLate(t *testing.T) {
	spawner := spawn.New()
	defer spawner.Close()
	s, err := openSupervisors(&Options{RunsDir: t.TempDir(), MaxIdle: 1}, spawner)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	dir := s.dirOf("epoch")
	if err := supervisor.Create(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, briefFile), mustMarshal(brief{Attempt: "second"}), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "started")
	late := &order{
		Dir: dir, Secret: s.secret, DisableCgroups: true, Attempt: "first",
		Plan: &command.Plan{
			Argv: []string{"touch", file}, Cwd: "/", Environ: []string{"PATH=" + os.Getenv("PATH")},
			Mark: markOf("epoch"),
		},
	}
	if _, _, err := s.give(late, nil); err == nil || !strings.HasSuffix(err.Error(), errOutOfDate.Error()) {
		t.Errorf("the order is answered with %v", err)
	}
	if _, err := os.Stat(file); err == nil || hasBegun(dir) {
		t.Errorf("it was started: %v, has begun %t", err, hasBegun(dir))
	}
	lock, err := supervisor.Lock(dir)
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
	if err := errors.Join(os.Mkdir(runs, 0o700), supervisor.Create(dir)); err != nil {
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

// TestFilesOfAnotherRunAreIgnored: after a crash of the machine the files may have their content from before they were
// used again, with the artifacts and the principal of another command.
func TestFilesOfAnotherRunAreIgnored(t *testing.T) {
	earlier := filepath.Join(t.TempDir(), "earlier")
	if err := supervisor.Create(earlier); err != nil {
		t.Fatal(err)
	}
	b := brief{Run: "earlier", Principal: "somebody", StdinOpen: true}
	if err := b.save(earlier); err != nil {
		t.Fatal(err)
	}
	end := mustMarshal(keptEnding{Ending: command.Ending{Outcome: Exited}, Run: "earlier"})
	if err := os.WriteFile(filepath.Join(earlier, endFile), end, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := loadBrief(earlier); got.Principal != b.Principal {
		t.Errorf("its own: %+v", got)
	}
	if got, ok, err := readEnding(earlier); got.Outcome != Exited || !ok || err != nil {
		t.Errorf("its own end: %+v, %t, %v", got, ok, err)
	}
	later := filepath.Join(filepath.Dir(earlier), "later")
	if err := os.Rename(earlier, later); err != nil {
		t.Fatal(err)
	}
	if got := loadBrief(later); got != (brief{}) {
		t.Errorf("that of an earlier run: %+v", got)
	}
	if got, ok, err := readEnding(later); ok || err != nil {
		t.Errorf("the end of an earlier run: %+v, %v", got, err)
	}
}
