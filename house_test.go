package reprise_test

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rules of the house, which no compiler holds.

// plainPackages import the standard library and this module alone.
var plainPackages = []string{".", "memstore", "storetest", "sse", "ssehttp", "client", "problem"}

func TestPlainPackagesNeedTheStandardLibraryAlone(t *testing.T) {
	for _, dir := range plainPackages {
		for _, path := range imports(t, dir) {
			if first, _, _ := strings.Cut(path, "/"); first != "reprise" && strings.Contains(first, ".") {
				t.Errorf("package %s imports %s", dir, path)
			}
		}
	}
}

// TestImportsPointToTheRoot: the root knows no other package, and stores do not know each other.
func TestImportsPointToTheRoot(t *testing.T) {
	for _, path := range imports(t, ".") {
		if strings.HasPrefix(path, "reprise") {
			t.Errorf("the root imports %s", path)
		}
	}
	stores, err := filepath.Glob("*store")
	check(t, err)
	if len(stores) < 2 {
		t.Fatalf("found the stores %q alone", stores)
	}
	for _, dir := range stores {
		for _, path := range imports(t, dir) {
			if other, ok := strings.CutPrefix(path, "reprise/"); ok && slices.Contains(stores, other) {
				t.Errorf("%s imports %s", dir, other)
			}
		}
	}
}

// imports are what the package in dir imports, without its tests.
func imports(t *testing.T, dir string) []string {
	t.Helper()
	p, err := build.ImportDir(dir, 0)
	check(t, err)
	return p.Imports
}

func TestFilesAreShort(t *testing.T) {
	for path := range goFiles(t) {
		limit := 700
		if strings.HasSuffix(path, "_test.go") {
			limit = 800
		}
		text, err := os.ReadFile(path)
		check(t, err)
		if lines := bytes.Count(text, []byte("\n")); lines > limit {
			t.Errorf("%s has %d lines, at most %d are allowed", path, lines, limit)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	for path, f := range goFiles(t) {
		for _, decl := range f.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || strings.HasSuffix(path, "_test.go") {
				continue
			}
			if lines := f.line(fn.End()) - f.line(fn.Pos()) + 1; lines > 80 {
				t.Errorf("%s: %s has %d lines, at most 80 are allowed", path, fn.Name.Name, lines)
			}
		}
	}
}

// TestExportedSymbolsAreDocumented: each has a comment of its own, or stands in a group that has one.
func TestExportedSymbolsAreDocumented(t *testing.T) {
	for path, f := range goFiles(t) {
		if f.file.Name.Name == "main" || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, decl := range f.file.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s: %s has no doc comment", path, name)
			}
		}
	}
}

func undocumented(decl ast.Decl) (names []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Doc == nil && decl.Name.IsExported() && !isMethodOfRule(decl) {
			names = append(names, decl.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && decl.Doc == nil {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() && spec.Doc == nil && spec.Comment == nil && decl.Doc == nil {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// isMethodOfRule is true for methods whose meaning is the standard library's, and for those of
// types that nobody outside sees.
func isMethodOfRule(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	if slices.Contains([]string{"Error", "String", "Unwrap", "Len", "Less", "Swap", "Push", "Pop"}, fn.Name.Name) {
		return true
	}
	recv := fn.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	name, ok := recv.(*ast.Ident)
	return ok && !name.IsExported()
}

// TestSentinelsAreFew: a caller can know all errors that it may branch on.
func TestSentinelsAreFew(t *testing.T) {
	count := 0
	for path, f := range goFiles(t) {
		if filepath.Dir(path) != "." || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, decl := range f.file.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, spec := range vars.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if !strings.HasPrefix(name.Name, "Err") {
						continue
					}
					count++
					if path != "errors.go" {
						t.Errorf("%s: %s belongs to errors.go", path, name.Name)
					}
				}
			}
		}
	}
	if count == 0 || count > 12 {
		t.Errorf("%d exported errors, a dozen at most is meant", count)
	}
}

// TestWordsThatSayNothing: a package, file or getter has a name that says what it is.
func TestWordsThatSayNothing(t *testing.T) {
	for path, f := range goFiles(t) {
		base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".go"), "_test")
		for _, word := range []string{"util", "utils", "common", "helper", "helpers", "types", "models", "manager"} {
			if base == word || f.file.Name.Name == word {
				t.Errorf("%s: %q says nothing", path, word)
			}
		}
		for _, decl := range f.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv != nil && strings.HasPrefix(fn.Name.Name, "Get") && fn.Name.IsExported() {
				t.Errorf("%s: a getter needs no Get: %s", path, fn.Name.Name)
			}
		}
	}
}

// TestNoFunctionRunsAtInit: importing a package has no effect.
func TestNoFunctionRunsAtInit(t *testing.T) {
	for path, f := range goFiles(t) {
		for _, decl := range f.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init", path)
			}
		}
	}
}

// TestErrorsAreNotMatchedByText: not in tests either. That an error does not hold a secret may be tested.
func TestErrorsAreNotMatchedByText(t *testing.T) {
	for path, f := range goFiles(t) {
		ast.Inspect(f.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 || !isCall(call.Fun, "strings", "Contains", "HasPrefix", "HasSuffix") {
				return true
			}
			if _, literal := call.Args[1].(*ast.BasicLit); !literal {
				return true
			}
			if text, ok := call.Args[0].(*ast.CallExpr); ok {
				if method, ok := text.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Error" && len(text.Args) == 0 {
					t.Errorf("%s:%d: an error is told by its text", path, f.line(call.Pos()))
				}
			}
			return true
		})
	}
}

func isCall(fun ast.Expr, pkg string, names ...string) bool {
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && slices.Contains(names, sel.Sel.Name)
}

// goFile is one parsed file.
type goFile struct {
	file *ast.File
	set  *token.FileSet
}

func (f goFile) line(at token.Pos) int { return f.set.Position(at).Line }

// goFiles are all Go files of the repository by path, those of examples and of other modules in it included.
func goFiles(t *testing.T) map[string]goFile {
	t.Helper()
	files := map[string]goFile{}
	set := token.NewFileSet()
	check(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		files[path] = goFile{file, set}
		return err
	}))
	if len(files) < 20 {
		t.Fatal("found only " + strconv.Itoa(len(files)) + " files")
	}
	return files
}
