package conventions_test

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// surface is the number of exported identifiers of each public package: types, functions, variables, constants, and
// methods of exported types. A number falls with what it counts, and rises only with a decision record that says what a
// program needs the new names for; see docs/internals/decisions/0056, 0060, 0072, 0075, 0081, 0082, 0083 and 0089.
var surface = map[string]int{
	".":                      193,
	"client":                 238,
	"mcp/mcphttp":            45,
	"mcp/mcphttp/resumetest": 15,
	"mcp/mcpstore":           12,
	"mcp/mcptask":            33,
	"operation":              29,
	"replica":                18,
	"sse":                    13,
	"sse/sseclient":          15,
	"sse/ssehttp":            24,
	"store/logstore":         21,
	"store/memstore":         12,
	"store/natsstore":        18,
	"store/pgstore":          22,
	"store/redisstore":       22,
	"store/sqlitestore":      25,
	"store/storetest":        6,
	"store/storewrap":        12,
	"x/genkit":               4,
	"x/storewrap":            9,
}

// maxSurface bounds the sum of surface without package client, which has a bound of its own there.
const maxSurface = 600

func TestExportedIdentifiersAreFew(t *testing.T) {
	top(t)
	count := map[string]int{}
	for path, f := range goFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if f.file.Name.Name == "main" || strings.HasSuffix(path, "_test.go") || !isPublic(dir) {
			continue
		}
		for _, decl := range f.file.Decls {
			count[dir] += exported(decl)
		}
	}
	sum := 0
	for _, dir := range slices.Sorted(maps.Keys(count)) {
		switch n, bound := count[dir], surface[dir]; {
		case n > bound:
			t.Errorf("%s exports %d identifiers, more than %d", dir, n, bound)
		case n < bound:
			t.Errorf("%s exports %d identifiers, fewer than %d: lower the number, so that it cannot rise again",
				dir, n, bound)
		}
		if dir != "client" {
			sum += count[dir]
		}
	}
	if sum > maxSurface {
		t.Errorf("%d identifiers are exported, more than %d", sum, maxSurface)
	}
	if len(count) != len(surface) {
		t.Errorf("%d public packages, and %d bounds", len(count), len(surface))
	}
}

// isPublic reports whether other modules can import the package in a folder of this module.
func isPublic(dir string) bool {
	for part := range strings.SplitSeq(dir, "/") {
		if part == "internal" {
			return false
		}
	}
	first, _, _ := strings.Cut(dir, "/")
	others := []string{"bench", "enginetest", "examples", "scripts"} // modules of their own, tests, and programs
	return !slices.Contains(others, first)
}

// exported counts what a declaration exports.
func exported(decl ast.Decl) (n int) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Name.IsExported() && (decl.Recv == nil || ast.IsExported(strings.TrimSuffix(receiver(decl), "."))) {
			return 1
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					n++
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						n++
					}
				}
			}
		}
	}
	return n
}

// TestPublicPackagesHaveExamples: go doc shows how a package is used, in lines that compile.
func TestPublicPackagesHaveExamples(t *testing.T) {
	top(t)
	has := map[string]bool{}
	for path, f := range goFiles(t) {
		for _, decl := range f.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") &&
				strings.HasSuffix(path, "_test.go") {
				has[filepath.ToSlash(filepath.Dir(path))] = true
			}
		}
	}
	for dir := range surface {
		if !has[dir] {
			t.Errorf("%s has no example", dir)
		}
	}
}
