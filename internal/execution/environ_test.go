package execution

import (
	"slices"
	"testing"
)

func TestEnvironMarksCannotBeForged(t *testing.T) {
	got := environ([]string{"PATH=/bin", "SECRET=x", "LC_ALL=C", "EXTRA=y"}, []string{"EXTRA"},
		map[string]string{envEpoch: "forged", "A": "1", "PATH": "/mine"}, true, envEpoch+"=true")
	want := []string{"A=1", "EXTRA=y", "LC_ALL=C", "PATH=/mine", "TERM=xterm-256color", envEpoch + "=true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
