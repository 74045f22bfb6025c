package main

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// A directive is a comment "//nolint:NAME // reason" at the end of a line. It takes back what the analyzer NAME finds
// in that line. What staticcheck's own checks find is taken back by "//lint:ignore CHECK reason" above the line.
var directive = regexp.MustCompile(`^//nolint:([a-z]+)(?: // (\S.*))?$`)

// bounds say where an analyzer that suits no line of ours finds nothing.
type bounds struct {
	productOnly bool           // not in tests
	excused     *regexp.Regexp // not in lines that match
}

// withDirectives returns a with directives and bounds. It also reports directives of its name that take nothing back.
func withDirectives(a *analysis.Analyzer, b bounds) *analysis.Analyzer {
	wrapped := *a
	wrapped.Run = func(pass *analysis.Pass) (any, error) {
		found := directives(pass, a.Name)
		var text lines
		inner := *pass
		inner.Report = func(d analysis.Diagnostic) {
			at := pass.Fset.Position(d.Pos)
			if b.productOnly && strings.HasSuffix(at.Filename, "_test.go") ||
				b.excused != nil && b.excused.MatchString(text.line(at)) {
				return
			}
			if use, ok := found[place{at.Filename, at.Line}]; ok {
				use.used = true
				return
			}
			d.Category = a.Name // staticcheck drops findings of categories that are no checks
			pass.Report(d)
		}
		result, err := a.Run(&inner)
		for _, use := range found {
			if !use.used {
				pass.Reportf(use.pos, "%s finds nothing in this line", a.Name)
			}
		}
		return result, err
	}
	return &wrapped
}

// place is a line of a file.
type place struct {
	file string
	line int
}

// use is a directive.
type use struct {
	pos  token.Pos
	used bool
}

// directives returns the directives of a name in all files of a package.
func directives(pass *analysis.Pass, name string) map[place]*use {
	found := map[place]*use{}
	for comment := range comments(pass) {
		if m := directive.FindStringSubmatch(comment.Text); m != nil && m[1] == name {
			at := pass.Fset.Position(comment.Pos())
			found[place{at.Filename, at.Line}] = &use{pos: comment.Pos()}
		}
	}
	return found
}

// comments calls yield for each comment of a package.
func comments(pass *analysis.Pass) func(yield func(*ast.Comment) bool) {
	return func(yield func(*ast.Comment) bool) {
		for _, file := range pass.Files {
			for _, group := range file.Comments {
				for _, comment := range group.List {
					if !yield(comment) {
						return
					}
				}
			}
		}
	}
}

// nolint reports directives without a reason, and those that name none of the analyzers.
func nolint(names []string) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "nolint",
		Doc:  "report comments //nolint without a reason or with an unknown name\n\nThe form is //nolint:NAME // reason.",
		Run: func(pass *analysis.Pass) (any, error) {
			for comment := range comments(pass) {
				if !strings.HasPrefix(comment.Text, "//nolint") {
					continue
				}
				switch m := directive.FindStringSubmatch(comment.Text); {
				case m == nil || m[2] == "":
					pass.Reportf(comment.Pos(), "want //nolint:NAME // reason")
				case !slices.Contains(names, m[1]):
					pass.Reportf(comment.Pos(), "%s is no analyzer of lint that this takes back", m[1])
				}
			}
			return nil, nil
		},
	}
}

// lines reads the lines of files.
type lines struct {
	file string
	text []string
}

// line returns the text of the line at a position, "" where it cannot be read.
func (l *lines) line(at token.Position) string {
	if l.file != at.Filename {
		text, err := os.ReadFile(at.Filename)
		if err != nil {
			return ""
		}
		l.file, l.text = at.Filename, strings.Split(string(text), "\n")
	}
	if at.Line < 1 || at.Line > len(l.text) {
		return ""
	}
	return l.text[at.Line-1]
}
