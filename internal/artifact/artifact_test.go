package artifact

import (
	"strings"
	"testing"
)

func TestPatternIsBelowWorkingDirectory(t *testing.T) {
	for _, pattern := range []string{
		"", "/etc/passwd", "../x", "a/../../x", "[", "a\x00", strings.Repeat("x", maxPattern+1),
	} {
		if Check(pattern) == nil {
			t.Errorf("%q is taken", pattern)
		}
	}
	for _, pattern := range []string{".", "a", "a/", "a/*/[bc]?"} {
		if err := Check(pattern); err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
