package execution

import (
	"os"
	"path/filepath"
	"testing"

	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
)

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
	end := mustMarshal(supervisor.Ending{Ending: command.Ending{Outcome: Exited}, Run: "earlier"})
	if err := os.WriteFile(filepath.Join(earlier, "end.json"), end, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := loadBrief(earlier); got.Principal != b.Principal {
		t.Errorf("its own: %+v", got)
	}
	if got, ok, err := supervisor.ReadEnding(earlier); got.Outcome != Exited || !ok || err != nil {
		t.Errorf("its own end: %+v, %t, %v", got, ok, err)
	}
	later := filepath.Join(filepath.Dir(earlier), "later")
	if err := os.Rename(earlier, later); err != nil {
		t.Fatal(err)
	}
	if got := loadBrief(later); got != (brief{}) {
		t.Errorf("that of an earlier run: %+v", got)
	}
	if got, ok, err := supervisor.ReadEnding(later); ok || err != nil {
		t.Errorf("the end of an earlier run: %+v, %v", got, err)
	}
}
