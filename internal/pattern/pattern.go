// Package pattern bounds what patterns of clients cost.
//
// Package regexp takes time in proportion to the text and to the program of an expression, and neither stops with the
// request nor bounds the program in a way that helps a server. [Compile] bounds the program. A [Search] bounds the work
// for one request and stops with its context.
package pattern

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"regexp/syntax"
)

const (
	// MaxBytes bounds the text of a pattern.
	MaxBytes = 4096
	// MaxProgram bounds the instructions of the program of an expression.
	MaxProgram = 1000
	// MaxWork bounds the work for one request, in bytes of text times instructions. It takes about a second at worst:
	// an expression of 10 instructions may search 13 MB, one of 1000 may search 130 KB.
	MaxWork = 1 << 27
	// maxPiece is the work between two looks at the context: a tenth of a second at worst.
	maxPiece = 1 << 24
)

// CheckGlob returns why a pattern of path.Match cannot be used.
func CheckGlob(glob string) error {
	if err := checkLength(glob); err != nil {
		return err
	}
	_, err := path.Match(glob, "")
	return err
}

func checkLength(text string) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("has more than %d bytes", MaxBytes)
	}
	return nil
}

// Expression is a regular expression whose program is bounded.
type Expression struct {
	re      *regexp.Regexp
	program int
}

// Compile parses an expression in the syntax of package regexp. It refuses a program of more than MaxProgram
// instructions, such as that of a large repeat.
func Compile(text string) (*Expression, error) {
	if err := checkLength(text); err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	// The program is compiled only if it is small: the parser takes expressions whose programs have 100 MiB.
	size := program(parsed)
	if size > MaxProgram {
		return nil, fmt.Errorf("its program has %d instructions, and at most %d are taken", size, MaxProgram)
	}
	re, err := regexp.Compile(text)
	return &Expression{re, size}, err
}

// program returns about how many instructions re is compiled to. The parser bounds it to some millions.
func program(re *syntax.Regexp) int {
	sum := 0
	for _, sub := range re.Sub {
		sum += program(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpConcat:
		return max(1, sum)
	case syntax.OpRepeat:
		return 1 + max(re.Min, re.Max)*(sum+1)
	}
	return sum + 1 + len(re.Sub)
}

// ErrWork means that the work for a request is done, and that there was no match so far.
var ErrWork = errors.New("pattern: the search takes more work than a request may cause")

// Search is the work for one request.
type Search struct {
	of   *Expression
	left int
}

// Search begins a search.
func (e *Expression) Search() *Search { return &Search{e, MaxWork} }

// Affords reports whether the work is left for a text of so many bytes.
func (s *Search) Affords(size int) bool { return size*s.of.program <= s.left }

// Find returns the end of the first match in text, or -1. The error is ErrWork or the cause of ctx.
func (s *Search) Find(ctx context.Context, text []byte) (int, error) {
	in := reader{ctx: ctx, text: bytes.NewReader(text), search: s}
	if in.err = context.Cause(ctx); in.err == nil && s.left <= 0 {
		in.err = ErrWork
	}
	var found []int
	switch {
	case in.err != nil:
	case len(text) <= s.piece():
		s.left -= (len(text) + 1) * s.of.program // its end is work too: a text may be an empty line
		found = s.of.re.FindIndex(text)          // which is faster than over a reader
	default:
		found = s.of.re.FindReaderIndex(&in)
	}
	if in.err != nil || found == nil {
		return -1, in.err
	}
	return found[1], nil
}

// piece returns how many bytes are searched between two looks at the context.
func (s *Search) piece() int { return maxPiece / s.of.program }

// reader ends the text early if the search has to stop.
type reader struct {
	ctx    context.Context
	text   *bytes.Reader
	search *Search
	piece  int // bytes that may be read until the next look
	err    error
}

// ReadRune implements io.RuneReader.
func (r *reader) ReadRune() (c rune, size int, err error) {
	if r.piece <= 0 {
		if r.err = context.Cause(r.ctx); r.err == nil && r.search.left <= 0 {
			r.err = ErrWork
		}
		if r.err != nil {
			return 0, 0, r.err
		}
		r.piece = r.search.piece()
		r.search.left -= r.piece * r.search.of.program
	}
	c, size, err = r.text.ReadRune()
	r.piece -= size
	return c, size, err
}
