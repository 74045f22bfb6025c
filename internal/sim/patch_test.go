package sim

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPatchesApply: the patches that revert the repairs listed in docs/testing.md apply to the code.
func TestPatchesApply(t *testing.T) {
	patches, err := filepath.Glob("testdata/*.patch")
	if err != nil || len(patches) != 4 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	if _, err := exec.LookPath("git"); err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	for _, patch := range patches {
		cmd := exec.Command("git", "apply", "--check", filepath.Join("internal", "sim", patch))
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", patch, err, out)
		}
	}
}
