package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCollectByPatternAndDirectory: files come by pattern and directory, once each, sorted; links that lead out and
// hidden files do not, and what there is no room for is noted.
func TestCollectByPatternAndDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	large := strings.Repeat("0123456789", 20_000)
	for name, text := range map[string]string{
		"out/a.txt":      "a",
		"out/deep/b.txt": large,
		"c.log":          "",
		"secret/token":   "t",
		"huge":           strings.Repeat("x", 1<<20),
		"not":            "n",
	} {
		write(filepath.Join(dir, name), text)
	}
	write(filepath.Join(outside, "o"), "o")
	for link, target := range map[string]string{
		"leads-out": filepath.Join(outside, "o"), "leads-up": "../" + filepath.Base(outside) + "/o", "inside": "c.log",
		"around": "secret/token", "way": "secret",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	c := Collection{
		Dir: dir, Hidden: []string{filepath.Join(dir, "secret")}, MaxBytes: 500_000,
		Patterns: []string{
			"out", "out/*.txt", "*.log", "lead*", "inside", "around", "way/token", "secret", "huge", "none*",
		},
	}
	var kept bytes.Buffer
	files, notes, err := c.Collect(func(chunk []byte) error {
		kept.Write(chunk)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
		sum := sha256.Sum256(kept.Next(int(f.Size)))
		if f.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: another checksum", f.Path)
		}
	}
	if want := []string{
		"c.log", "inside", "out/a.txt", "out/deep/b.txt",
	}; !slices.Equal(names, want) || kept.Len() != 0 {
		t.Errorf("%q, want %q; %d bytes more", names, want, kept.Len())
	}
	all := strings.Join(notes, "\n")
	if len(notes) != 2 || !strings.Contains(all, "huge: ") || !strings.Contains(all, "none*: ") {
		t.Errorf("notes %q", notes)
	}
	c.Dir = filepath.Join(dir, "secret")
	c.Patterns = []string{"token"}
	if files, _, err := c.Collect(func([]byte) error { return nil }); err != nil || len(files) != 0 {
		t.Errorf("within what is hidden: %v, %v", files, err)
	}
	for _, pattern := range []string{"", "/etc/passwd", "../x", "a/../../x", "[", "a\x00"} {
		if Check(pattern) == nil {
			t.Errorf("%q is taken", pattern)
		}
	}
}
