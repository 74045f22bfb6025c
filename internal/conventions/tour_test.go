package conventions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTourNamesExist: each row of docs/internals/tour.md names a file and declarations that are in it.
func TestTourNamesExist(t *testing.T) {
	top(t)
	text, err := os.ReadFile("docs/internals/tour.md")
	check(t, err)
	row := regexp.MustCompile("(?m)^\\| `([^`]+\\.go)` \\| ([^|]+) \\|")
	name := regexp.MustCompile("`([^`]+)`")
	rows := row.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 30 {
		t.Errorf("the tour has %d rows that name a file, want at least 30", len(rows))
	}
	for _, r := range rows {
		declared := declarations(t, r[1])
		names := name.FindAllStringSubmatch(r[2], -1)
		if len(names) == 0 {
			t.Errorf("the row of %s names nothing", r[1])
		}
		for _, n := range names {
			if !declared[n[1]] {
				t.Errorf("%s does not declare %s", r[1], n[1])
			}
		}
	}
}

// declarations are the types and functions that a file declares. Methods are "Type.Method".
func declarations(t *testing.T, path string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	check(t, err)
	names := map[string]bool{}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			names[receiver(decl)+decl.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					names[s.Name.Name] = true
				}
			}
		}
	}
	return names
}

// receiver is the type of a method with a dot, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	var b strings.Builder
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && b.Len() == 0 {
			b.WriteString(id.Name)
		}
		return true
	})
	return b.String() + "."
}
