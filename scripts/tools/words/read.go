package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// patterns are the six kinds of phrases. The second text is what to write in their place.
var patterns = []struct {
	phrase *regexp.Regexp
	advice string
}{
	{regexp.MustCompile(`(?i)\b(that|those) of\b`), "repeat the noun"},
	{regexp.MustCompile(`(?i)\b(of which|of whom|for whom|to whom)\b`), "two sentences"},
	{regexp.MustCompile(`(?i)\b(there )?(is|are) none\b|\bone of none\b`), "is not a ..., there is no ..."},
	{regexp.MustCompile(`(?:^|[.!?:;] )What (is|was|are|were|has|had)\b`), "name the subject"},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|those who)\b`), "name the program or the user"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|be|been|being) told\b|\btells\b`), "reports, returns, gets an error"},
}

// folder is what is written in the files of a folder.
type folder struct {
	words int
	found []string
	pages map[string]int // the words of each page
}

func (f *folder) rate() float64 { return 10_000 * float64(len(f.found)) / float64(max(f.words, 1)) }

// free is how many findings a folder may have without a bound of its own.
func (f *folder) free() int { return f.words*maxRate/10_000 + 1 }

// add counts a text that begins at a line of a file. A phrase may go over the end of a line.
func (f *folder) add(path string, line int, text string) {
	f.words += len(strings.Fields(text))
	flat := strings.ReplaceAll(text, "\n", " ")
	for _, p := range patterns {
		for _, at := range p.phrase.FindAllStringIndex(flat, -1) {
			if strings.HasPrefix(strings.ToLower(flat[at[0]:at[1]]), "there ") {
				continue // "or nil if there is none" is plain
			}
			begin, end := max(0, at[0]-60), min(len(flat), at[1]+60)
			f.found = append(f.found, path+":"+strconv.Itoa(line+strings.Count(text[:at[0]], "\n"))+
				": ..."+flat[begin:end]+"... ("+p.advice+")")
		}
	}
}

// leftOut are the names of folders with files of others.
var leftOut = []string{"node_modules", "testdata", "bin", ".git", ".cache"}

// ownFolder quotes what this program finds.
const ownFolder = "scripts/tools/words"

// read reads the Go files and the pages below top.
func read(top string) (map[string]*folder, error) {
	folders := map[string]*folder{}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && (slices.Contains(leftOut, name) || strings.HasSuffix(filepath.ToSlash(path), ownFolder)):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		short, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		short = filepath.ToSlash(short)
		dir := filepath.ToSlash(filepath.Dir(short))
		f := folders[dir]
		if f == nil {
			f = &folder{pages: map[string]int{}}
		}
		switch filepath.Ext(path) {
		case ".go":
			err = f.addGo(short, path)
		case ".md":
			err = f.addPage(short, path)
		default:
			return nil
		}
		folders[dir] = f
		return err
	})
	return folders, err
}

// addGo adds the comments and the texts of a Go file.
func (f *folder) addGo(short, path string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		var text strings.Builder
		for _, comment := range group.List {
			line := strings.TrimPrefix(comment.Text, "//")
			if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "go:") && !strings.HasPrefix(line, "nolint") {
				text.WriteString(strings.TrimSpace(line))
			}
			text.WriteByte('\n')
		}
		f.add(short, files.Position(group.Pos()).Line, text.String())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Count(lit.Value, " ") >= 2 {
			f.add(short, files.Position(lit.Pos()).Line, lit.Value[1:len(lit.Value)-1])
		}
		return true
	})
	return nil
}

var block = regexp.MustCompile("(?ms)^```.*?^```")

// addPage adds the prose of a page, without its blocks of code.
func (f *folder) addPage(short, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	prose := block.ReplaceAllStringFunc(string(text), func(code string) string {
		return strings.Repeat("\n", strings.Count(code, "\n"))
	})
	f.pages[short] = len(strings.Fields(prose))
	if !isGenerated(short) {
		f.add(short, 1, prose)
	}
	return nil
}

// isGenerated reports whether a program writes a page.
func isGenerated(path string) bool {
	return path == "docs/settings.md" || strings.HasPrefix(path, "docs/api-") ||
		strings.HasPrefix(path, "bench/results/")
}
