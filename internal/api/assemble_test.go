package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pieces are the files that openapi.yaml is made of, in its order: the head and what all paths share, the paths of this
// package, and the pieces of each capability, which stand beside its http.go.
var pieces = []string{
	"web/openapi.yaml",
	"api/executions.yaml",
	"api/streams.yaml",
	"api/server.yaml",
	"audit/openapi.yaml",
	"files/openapi.yaml",
	"upkeep/openapi.yaml",
	"mcpapi/openapi.yaml",
	"roster/openapi.yaml",
	"drain/openapi.yaml",
	"apikey/openapi.yaml",
	"webhook/openapi.yaml",
	"schedule/openapi.yaml",
}

// TestOpenAPIIsAssembled compares openapi.yaml with its pieces. With -update it writes the file.
func TestOpenAPIIsAssembled(t *testing.T) {
	want := assemble(t)
	if *update {
		if err := os.WriteFile("openapi.yaml", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("openapi.yaml is not what its pieces say: run make generate")
	}
}

// assemble joins the pieces: the head of the first one, then what each has below "paths:", and then what each has below
// "components:", by kind. The lines are copied as they are.
func assemble(t *testing.T) string {
	t.Helper()
	var head, paths string
	var kinds []string // such as "  schemas:", in the order in which they are met
	components := map[string]string{}
	for _, name := range pieces {
		piece, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		before, its, _ := strings.Cut("\n"+string(piece), "\ncomponents:\n")
		first, itsPaths, _ := strings.Cut(before, "\npaths:\n")
		if head == "" {
			head = strings.TrimSpace(first) + "\n"
		}
		if itsPaths != "" {
			paths += strings.TrimRight(itsPaths, "\n") + "\n\n"
		}
		kind := ""
		for line := range strings.Lines(its) {
			if strings.HasPrefix(line, "  ") && line[2] != ' ' {
				kind = line
				if components[kind] == "" {
					kinds = append(kinds, kind)
				}
				continue
			}
			components[kind] += line
		}
	}
	text := "# Assembled by \"make generate\" from the pieces that stand beside the code of their paths.\n" + head +
		"\npaths:\n" + paths + "components:\n"
	for _, kind := range kinds {
		text += kind + components[kind]
	}
	return text
}
