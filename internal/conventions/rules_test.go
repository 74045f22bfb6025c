package conventions_test

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The project's conventions that no compiler checks.

// plainPackages need the standard library and this module alone, and so does all that they import.
var plainPackages = []string{".", "store/memstore", "store/storetest", "sse", "sse/sseclient", "sse/ssehttp", "client"}

func TestPlainPackagesNeedTheStandardLibraryAlone(t *testing.T) {
	top(t)
	seen := map[string]bool{}
	var visit func(dir, via string)
	visit = func(dir, via string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, path := range imports(t, dir) {
			switch first, rest, _ := strings.Cut(path, "/"); {
			case first == "reprise" && rest == "":
				visit(".", via)
			case first == "reprise":
				visit(rest, via+" -> "+rest)
			case strings.Contains(first, "."):
				t.Errorf("package %s imports %s", via, path)
			}
		}
	}
	for _, dir := range plainPackages {
		visit(dir, dir)
	}
	if !seen["internal/backoff"] {
		t.Error("what the packages import was not looked at")
	}
}

// TestImportsPointToTheRoot: the root knows no other package, and stores do not know each other. The exceptions are
// internal/backoff and internal/durable, which import nothing of ours: the root pauses and writes keys as all packages.
func TestImportsPointToTheRoot(t *testing.T) {
	top(t)
	below := []string{"reprise/internal/backoff", "reprise/internal/durable"}
	for _, path := range imports(t, ".") {
		if strings.HasPrefix(path, "reprise/") && !slices.Contains(below, path) {
			t.Errorf("the root imports %s", path)
		}
	}
	for _, dir := range below {
		for _, path := range imports(t, strings.TrimPrefix(dir, "reprise/")) {
			if strings.HasPrefix(path, "reprise") {
				t.Errorf("%s imports %s", dir, path)
			}
		}
	}
	stores, err := filepath.Glob("store/*store")
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

// TestWebNamesNoCapability: the core of the HTTP API knows senders and bodies, and no capability.
func TestWebNamesNoCapability(t *testing.T) {
	top(t)
	core := []string{
		"httpserver", "identity", "jsonscan", "otlp", "park", "problem", "tracecontext", // and the root
	}
	found := 0
	for _, path := range imports(t, "internal/web") {
		name, ours := strings.CutPrefix(path, "reprise/internal/")
		if ours || strings.HasPrefix(path, "reprise/") {
			found++
		}
		if !ours && strings.HasPrefix(path, "reprise/") || ours && !slices.Contains(core, name) {
			t.Errorf("internal/web imports %s", path)
		}
	}
	if found == 0 {
		t.Error("what internal/web imports was not looked at")
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
	top(t)
	for path := range goFiles(t) {
		limit := 500
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

// maxEntries bounds the files and folders at the top of the repository, those with a leading dot included.
const maxEntries = 48

// TestTopLevelIsSmall: a reader who opens the repository sees what it is made of on one screen.
func TestTopLevelIsSmall(t *testing.T) {
	top(t)
	entries, err := os.ReadDir(".")
	check(t, err)
	var ignored []string
	for line := range strings.Lines(readFile(t, ".gitignore")) {
		ignored = append(ignored, strings.Trim(line, "/\n"))
	}
	var found []string
	for _, e := range entries {
		if e.Name() != ".git" && !slices.ContainsFunc(ignored, func(pattern string) bool {
			matched, err := filepath.Match(pattern, e.Name())
			check(t, err)
			return matched
		}) {
			found = append(found, e.Name())
		}
	}
	if len(found) > maxEntries {
		t.Errorf("%d entries at the top, at most %d are allowed: %q", len(found), maxEntries, found)
	}
}

func TestFunctionsAreShort(t *testing.T) {
	top(t)
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
	top(t)
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
	top(t)
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

// TestNamesAreSpecific: no package, file or getter has a generic name such as util.
func TestNamesAreSpecific(t *testing.T) {
	top(t)
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
	top(t)
	for path, f := range goFiles(t) {
		for _, decl := range f.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init", path)
			}
		}
	}
}

// TestVerdictsAreSetInOnePlace: what is decided about a call stays, since verdict.decide alone sets it, and call.begin
// makes it new for another try.
func TestVerdictsAreSetInOnePlace(t *testing.T) {
	top(t)
	found := 0
	for path, f := range goFiles(t) {
		if strings.Contains(path, "/") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, decl := range f.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			setter := ok && (fn.Name.Name == "decide" || fn.Name.Name == "begin")
			ast.Inspect(decl, func(n ast.Node) bool {
				if !setsVerdict(n) {
					return true
				}
				if found++; !setter {
					t.Errorf("%s:%d: a verdict is set", path, f.line(n.Pos()))
				}
				return false
			})
		}
	}
	if found != 2 {
		t.Errorf("verdicts are set in %d places, want 2", found)
	}
}

// setsVerdict reports whether n makes a verdict, or assigns to one of a call or to a part of one.
func setsVerdict(n ast.Node) bool {
	if made, ok := n.(*ast.CompositeLit); ok {
		name, ok := made.Type.(*ast.Ident)
		return ok && name.Name == "verdict"
	}
	set, ok := n.(*ast.AssignStmt)
	return ok && slices.ContainsFunc(set.Lhs, func(to ast.Expr) bool {
		for {
			of, ok := to.(*ast.SelectorExpr)
			if !ok || of.Sel.Name == "verdict" {
				return ok
			}
			to = of.X
		}
	})
}

// TestErrorsAreNotMatchedByText: not in tests either. That an error does not hold a secret may be tested.
func TestErrorsAreNotMatchedByText(t *testing.T) {
	top(t)
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
		case entry.IsDir() && path != "." &&
			(strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules"):
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

// TestErrorsLeaveAStoreThroughOnePlace: every method of a Store that returns an error maps it, with storeError, as its
// last act.
func TestErrorsLeaveAStoreThroughOnePlace(t *testing.T) {
	top(t)
	seen := 0
	stores := []string{"redisstore", "pgstore", "natsstore", "sqlitestore", "logstore"}
	for path, f := range goFiles(t) {
		name, isStore := strings.CutPrefix(filepath.Dir(path), "store/")
		if !isStore || !slices.Contains(stores, name) || strings.HasSuffix(path, "_test.go") {
			continue
		}
		methods := map[string]*ast.FuncDecl{}
		for _, decl := range f.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && (fn.Recv == nil || isStoreOrOpen(fn)) {
				methods[fn.Name.Name] = fn
			}
		}
		for _, fn := range methods {
			if !fn.Name.IsExported() || !returnsError(fn) || !isStoreOrOpen(fn) {
				continue
			}
			seen++
			if inner := methods[callsAlone(fn)]; inner != nil {
				fn = inner // Create and CreateAppend are one method of the same file
			}
			if deferred, ok := fn.Body.List[0].(*ast.DeferStmt); !ok ||
				!mentions(deferred, "storeError", "storeErrors", "openError") {
				t.Errorf("%s:%d: %s does not begin with a deferred storeError", path, f.line(fn.Pos()), fn.Name.Name)
			}
		}
	}
	if seen < 40 {
		t.Errorf("found only %d methods", seen)
	}
}

// callsAlone is the name of the method that fn returns the results of, if it does nothing else.
func callsAlone(fn *ast.FuncDecl) string {
	if len(fn.Body.List) != 1 {
		return ""
	}
	if ret, ok := fn.Body.List[0].(*ast.ReturnStmt); ok && len(ret.Results) == 1 {
		if call, ok := ret.Results[0].(*ast.CallExpr); ok {
			if method, ok := call.Fun.(*ast.SelectorExpr); ok {
				return method.Sel.Name
			}
		}
	}
	return ""
}

// isStoreOrOpen reports whether fn is Open, or a method of a type called Store.
func isStoreOrOpen(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return fn.Name.Name == "Open"
	}
	star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := star.X.(*ast.Ident)
	return ok && name.Name == "Store"
}

// returnsError reports whether the last result of fn is an error or a slice of errors.
func returnsError(fn *ast.FuncDecl) bool {
	if fn.Type.Results == nil {
		return false
	}
	last := fn.Type.Results.List[len(fn.Type.Results.List)-1].Type
	if slice, ok := last.(*ast.ArrayType); ok {
		last = slice.Elt
	}
	name, ok := last.(*ast.Ident)
	return ok && name.Name == "error"
}

// mentions reports whether one of the names stands somewhere in n.
func mentions(n ast.Node, names ...string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		found = found || ok && slices.Contains(names, name.Name)
		return !found
	})
	return found
}

// maxColumns bounds a line of Go. A tab counts as four columns, as in .editorconfig.
const maxColumns = 120

// TestLinesAreShort: two files stand side by side on a screen. The exception is a literal that cannot be broken, or
// that is found by searching for it if it is in one piece; see mayBeLong.
func TestLinesAreShort(t *testing.T) {
	top(t)
	for path := range goFiles(t) {
		text, err := os.ReadFile(path)
		check(t, err)
		for _, line := range overlong(text) {
			t.Errorf("%s:%d: more than %d columns", path, line, maxColumns)
		}
	}
}

// overlong are the numbers of the lines that are too long and need not be.
func overlong(text []byte) (numbers []int) {
	lines := strings.Split(string(text), "\n")
	if !slices.ContainsFunc(lines, func(line string) bool { return columns(line) > maxColumns }) {
		return nil
	}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var tokens scanner.Scanner
	tokens.Init(file, text, nil, 0)
	excused := map[int]bool{}
	for {
		at, kind, literal := tokens.Scan()
		if kind == token.EOF {
			break
		}
		if kind != token.STRING {
			continue
		}
		begin := set.Position(at)
		for i, part := range strings.Split(literal, "\n") {
			line := lines[begin.Line-1+i]
			before := ""
			if i == 0 {
				before = line[:begin.Column-1]
			}
			if mayBeLong(before, part, line[len(before)+len(part):], strings.Contains(literal, "\n")) {
				excused[begin.Line+i] = true
			}
		}
	}
	for i, line := range lines {
		if columns(line) > maxColumns && !excused[i+1] {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// mayBeLong reports whether the line of before, literal and after may be longer than maxColumns: literal goes beyond
// that, and it is a line of a raw string of several, or has more than 60 columns with nothing but punctuation after it.
// Such are struct tags, help, JSON, messages. Whatever stands before or after a literal has to be on lines of its own.
func mayBeLong(before, literal, after string, several bool) bool {
	return columns(before+literal) > maxColumns &&
		(several || columns(literal) > 60 && strings.Trim(after, ",)}]({+; ") == "")
}

func TestLongLiteralsAreAllowedOnTheirOwnLines(t *testing.T) {
	top(t)
	long := `"` + strings.Repeat("x", 120) + `"`
	for _, tt := range []struct {
		before, literal, after string
		several, may           bool
	}{
		{"\t", long, "),", false, true},
		{"\t", long, ", x)", false, false},                          // x can be on the next line
		{"\t", `"message"`, strings.Repeat("x", 120), false, false}, // the message is not what is long
		// The literal fits the next line.
		{strings.Repeat("x", 100), `"` + strings.Repeat("m", 40) + `"`, ")", false, false},
		{"", strings.Repeat("x", 121), "`, x)", true, true},
		{"", "`", strings.Repeat(", x", 50), true, false},
	} {
		if mayBeLong(tt.before, tt.literal, tt.after, tt.several) != tt.may {
			t.Errorf("%q, %q, %q may be long: %t", tt.before, tt.literal, tt.after, !tt.may)
		}
	}
}

// columns is the width of a line.
func columns(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }
