package command

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestCommandKnowsNoEngine: what runs a command imports neither the engine, nor what imports the engine.
func TestCommandKnowsNoEngine(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-deps", ".")
		list.Env = append(list.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		deps, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Fields(string(deps))
		if slices.Contains(names, "reprise") || !slices.Contains(names, "reprise/internal/spawn") {
			t.Errorf("on %s, it imports %s", system, names)
		}
	}
}
