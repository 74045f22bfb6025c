package gateway_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reference is an identifier in brackets or backquotes.
var reference = regexp.MustCompile("[\\[`]((?:[A-Za-z]\\w*\\.)?[A-Za-z]\\w*)[\\]`]")

func TestDocNamesDeclarationsThatExist(t *testing.T) {
	declared := declarations(t, ".", "")
	for _, sub := range []string{"link", "wire"} {
		for name := range declarations(t, sub, sub+".") {
			declared[name] = true
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	check(t, err)
	named := reference.FindAllStringSubmatch(file.Doc.Text(), -1)
	if len(named) < 20 {
		t.Errorf("found only %d names", len(named))
	}
	for _, name := range named {
		if !declared[name[1]] {
			t.Errorf("the package documentation names %s, which does not exist", name[1])
		}
	}
}

func TestDocTellsAToolsCallInTenLines(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	check(t, err)
	steps := regexp.MustCompile(`(?m)^// +(\d+)\. `).FindAllStringSubmatch(string(text), -1)
	if len(steps) != 10 {
		t.Errorf("the way of a tools/call has %d steps and not 10", len(steps))
	}
}

// declarations returns the types, functions and methods of the package in dir, those for other systems included.
func declarations(t *testing.T, dir, prefix string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	check(t, err)
	declared := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		check(t, err)
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				declared[prefix+receiver(decl)+decl.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						declared[prefix+spec.Name.Name] = true
					}
				}
			}
		}
	}
	return declared
}

// receiver returns the type of a method and a dot, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	return of.(*ast.Ident).Name + "."
}
