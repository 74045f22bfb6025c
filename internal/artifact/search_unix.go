//go:build linux || darwin || freebsd || netbsd || openbsd

package artifact

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// search looks for the files that patterns name. It looks at every name once, whatever the number of patterns that
// lead there.
type search struct {
	ctx    context.Context
	hidden []ID

	found  []bool   // for each pattern: it names something
	names  []string // of the files
	notes  []string
	looked int  // names
	held   int  // bytes of names
	full   bool // one of the bounds is reached
}

// want is the rest of a pattern below some directory. All files are wanted if nothing is left.
type want struct {
	pattern int
	rest    []string // its elements
}

// batch is how many names of a directory are read at once.
const batch = 128

// find sets names, sorted, and notes.
func (s *search) find(dir *os.File, patterns []string) error {
	s.found = make([]bool, len(patterns))
	wants := make([]want, len(patterns))
	for i, p := range patterns {
		wants[i].pattern = i
		if p = strings.TrimSuffix(p, "/"); p != "." {
			wants[i].rest = strings.Split(p, "/")
		}
	}
	if err := s.entry(dir, "", ".", wants, 0); err != nil {
		return err
	}
	for i, p := range patterns {
		if !s.found[i] {
			s.notes = append(s.notes, p+": no such file")
		}
	}
	slices.Sort(s.names)
	return nil
}

// below finds what is wanted in a directory. prefix is its path.
func (s *search) below(dir *os.File, prefix string, wants []want, depth int) error {
	if names, ok := literals(wants); ok { // the others need not be read
		return s.each(dir, prefix, names, wants, depth)
	}
	for !s.full {
		names, err := dir.Readdirnames(batch)
		if err := s.each(dir, prefix, names, wants, depth); err != nil {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // the end, or what cannot be read is left out
		}
	}
	return nil
}

// literals returns the names that are wanted if none of them has a wildcard.
func literals(wants []want) (names []string, ok bool) {
	for _, w := range wants {
		if len(w.rest) == 0 || strings.ContainsAny(w.rest[0], `*?[\`) {
			return nil, false
		}
		names = append(names, w.rest[0])
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

func (s *search) each(dir *os.File, prefix string, names []string, wants []want, depth int) error {
	for _, name := range names {
		if s.full {
			return nil
		}
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if s.looked++; s.looked > maxNames {
			s.stop(fmt.Sprintf("more than %d names were looked at", maxNames))
			return nil
		}
		below := matching(wants, name)
		if len(below) == 0 || !utf8.ValidString(name) {
			continue
		}
		if err := s.entry(dir, path.Join(prefix, name), name, below, depth); err != nil {
			return err
		}
	}
	return nil
}

// matching returns what is wanted below name.
func matching(wants []want, name string) (below []want) {
	for _, w := range wants {
		if len(w.rest) == 0 {
			below = append(below, w)
		} else if ok, _ := path.Match(w.rest[0], name); ok {
			below = append(below, want{w.pattern, w.rest[1:]})
		}
	}
	return below
}

// entry takes up a name in a directory, for which there are wants. full is its path.
func (s *search) entry(dir *os.File, full, name string, wants []want, depth int) error {
	st, err := lookAt(dir, name)
	if err != nil || slices.Contains(s.hidden, idOf(st)) {
		return nil //nolint:nilerr // what cannot be looked at is left out
	}
	switch {
	case isDir(st):
		return s.directory(dir, full, name, wants, depth)
	case isRegular(st) && s.mark(wants):
		if s.held += len(full); s.held > maxNameBytes {
			s.stop(fmt.Sprintf("the names of more files have more than %d bytes", maxNameBytes))
			return nil
		}
		s.names = append(s.names, full)
	}
	return nil
}

func (s *search) directory(in *os.File, full, name string, wants []want, depth int) error {
	dir, st, err := openDir(in, name)
	if err != nil {
		return nil // likewise
	}
	defer dir.Close()
	if slices.Contains(s.hidden, idOf(st)) {
		return nil
	}
	s.mark(wants)
	if depth == maxDepth {
		s.stop(fmt.Sprintf("there are more than %d directories within each other", maxDepth))
		return nil
	}
	return s.below(dir, full, wants, depth+1)
}

// mark notes that there is something for the patterns that end here, and reports whether there are any.
func (s *search) mark(wants []want) (ends bool) {
	for _, w := range wants {
		if len(w.rest) == 0 {
			s.found[w.pattern], ends = true, true
		}
	}
	return ends
}

// stop ends the search with what it has found.
func (s *search) stop(note string) { s.full, s.notes = true, append(s.notes, note) }
