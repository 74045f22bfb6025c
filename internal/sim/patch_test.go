package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPatchesApply: the patches that revert the repairs listed in docs/internals/testing.md apply to the code, which
// then can be built.
func TestPatchesApply(t *testing.T) {
	patches, err := filepath.Glob("testdata/*.patch")
	if err != nil || len(patches) != 4 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	if _, err := exec.LookPath("git"); err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	for _, patch := range patches {
		t.Run(filepath.Base(patch), func(t *testing.T) {
			run := func(dir, name string, args ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s %s: %v\n%s", name, args, err, out)
				}
			}
			root, at := absolute(t, "../.."), t.TempDir()
			replace := map[string]string{}
			for _, file := range patched(t, patch) {
				replace[filepath.Join(root, file)] = filepath.Join(at, file)
				write(t, filepath.Join(at, file), read(t, filepath.Join(root, file)))
			}
			run(at, "git", "apply", absolute(t, patch))
			overlay, err := json.Marshal(map[string]any{"Replace": replace})
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(at, "overlay.json"), overlay)
			run(root, "go", "build", "-overlay", filepath.Join(at, "overlay.json"), ".")
		})
	}
}

// patched returns the files that a patch changes, all in the root of the repository.
func patched(t *testing.T, patch string) (files []string) {
	t.Helper()
	for line := range strings.Lines(string(read(t, patch))) {
		if file, ok := strings.CutPrefix(line, "+++ b/"); ok {
			files = append(files, strings.TrimSpace(file))
		}
	}
	return files
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
