package interpreter

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestInterpretersAreAClient: interpreters use a Host, as any other package could, and the programs of languages know
// no part of this module.
func TestInterpretersAreAClient(t *testing.T) {
	for pkg, want := range map[string]string{
		".": "reprise reprise/client reprise/internal/execution reprise/internal/execution/command " +
			"reprise/internal/execution/language reprise/internal/execution/supervisor reprise/internal/quota " +
			"reprise/internal/wire",
		"../language": "",
	} {
		list, err := exec.Command("go", "list", "-f", `{{join .Imports " "}}`, pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(strings.Fields(string(list)), func(name string) bool {
			return !strings.HasPrefix(name, "reprise")
		})
		if names := strings.Join(got, " "); names != want {
			t.Errorf("%s imports %s, want %s", pkg, names, want)
		}
	}
}
