package artifact

import (
	"strings"
	"testing"

	"reprise/internal/pattern"
)

func TestPatternIsBelowWorkingDirectory(t *testing.T) {
	for _, name := range []string{
		"", "/etc/passwd", "../x", "a/../../x", "[", "a\x00", strings.Repeat("x", pattern.MaxBytes+1),
	} {
		if Check(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
	for _, name := range []string{".", "a", "a/", "a/*/[bc]?"} {
		if err := Check(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
