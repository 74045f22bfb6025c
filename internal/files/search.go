package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"reprise/internal/pattern"
)

// Query describes a search below a directory. Name, Text or both must be set.
type Query struct {
	// Path is the directory.
	Path string
	// Name is a pattern of path.Match for the last segment, for example "*.go".
	Name string
	// Text is contained in a line of each matching file. Files with a NUL in their first 8,000 bytes are skipped, and
	// so is everything beyond 64 MiB of a file.
	Text string
	// Limit bounds the results. After is Page.Next of the page before, or "".
	Limit int
	After string
}

const (
	// searchTime bounds the search for one page: a page may have fewer than Limit results, or none, and a Next.
	searchTime = 2 * time.Second
	// maxSearched bounds the bytes of a file that are searched.
	maxSearched = 64 << 20
	// maxText bounds the returned line, in bytes.
	maxText = 400
	// maxDepth bounds the depth of a walk.
	maxDepth = 200
)

// errEnough ends a walk that has reached its limit.
var errEnough = errors.New("enough")

// Search returns entries below a directory that match, in the order of a walk. Symbolic links are not followed.
func (r *Roots) Search(ctx context.Context, q Query) (Page, error) {
	in, rel, err := r.resolve("path", q.Path)
	switch {
	case err != nil:
		return Page{}, err
	case q.Name == "" && q.Text == "":
		return Page{}, &FieldError{"name", "a pattern for the name or a text is needed"}
	}
	if err := pattern.CheckGlob(q.Name); err != nil {
		return Page{}, &FieldError{"name", "the pattern cannot be used: " + err.Error()}
	}
	var page Page
	last := ""
	deadline := time.Now().Add(searchTime)
	err = in.walk(ctx, rel, maxDepth, func(dir *root, name string, file *File) error {
		below := strings.TrimPrefix(strings.TrimPrefix(file.raw, in.join(rel)), "/")
		if !isBehind(below, q.After) {
			return nil
		}
		if len(page.Files) == q.Limit || last != "" && time.Now().After(deadline) {
			page.Next = last
			return errEnough
		}
		last = below
		if q.matches(ctx, dir, name, file) {
			page.Files = append(page.Files, *file)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return Page{}, mapped(q.Path, err)
	}
	return page, nil
}

// isBehind reports whether a walk reaches the path p after the path after. A directory precedes its entries, and names
// are in order.
func isBehind(p, after string) bool {
	if after == "" {
		return true
	}
	return strings.ReplaceAll(p, "/", "\x00") > strings.ReplaceAll(after, "/", "\x00")
}

func (q *Query) matches(ctx context.Context, dir *root, name string, file *File) bool {
	if q.Name != "" {
		if ok, _ := path.Match(q.Name, name); !ok {
			return false
		}
	}
	if q.Text == "" {
		return true
	}
	if file.Type != TypeFile {
		return false
	}
	file.Line, file.Text = findLine(ctx, dir, name, q.Text)
	return file.Line > 0
}

// findLine returns the first line that contains text, and its number; 0 for none.
func findLine(ctx context.Context, dir *root, name, text string) (int, string) {
	f, err := dir.openFile(name)
	if err != nil {
		return 0, ""
	}
	defer f.Close()
	in := bufio.NewReaderSize(&untilDone{ctx, io.LimitReader(f, maxSearched)}, chunk)
	if head, _ := in.Peek(8000); bytes.IndexByte(head, 0) >= 0 {
		return 0, ""
	}
	wanted := []byte(text)
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		if bytes.Contains(line, wanted) {
			shown := strings.ToValidUTF8(string(line[:min(len(line), maxText)]), "\uFFFD")
			return number, strings.TrimRight(shown, "\r\n")
		}
		for errors.Is(err, bufio.ErrBufferFull) { // skip the rest of a long line
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return 0, ""
		}
	}
}

// walk calls visit for everything below a directory, levels deep: the names of each directory in order, and a directory
// before its entries. dir is the directory that contains name.
func (in *root) walk(ctx context.Context, rel string, levels int,
	visit func(dir *root, name string, file *File) error,
) error {
	dir, names, err := in.names(rel)
	if err != nil {
		return err
	}
	defer dir.Close()
	return in.walkIn(ctx, dir, rel, names, min(levels, maxDepth), visit)
}

func (in *root) walkIn(ctx context.Context, dir *root, rel string, names []string, levels int,
	visit func(dir *root, name string, file *File) error,
) error {
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		info, err := dir.Lstat(name)
		if err != nil {
			continue // it is gone by now
		}
		at := under(rel, name)
		file := newFileAt(dir, in.join(at), name, info)
		if err := visit(dir, name, &file); err != nil {
			return err
		}
		if !info.IsDir() || levels <= 1 {
			continue
		}
		sub, below, err := dir.names(name)
		if err != nil {
			continue // it is gone or not readable
		}
		err = in.walkIn(ctx, sub, at, below, levels-1, visit)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Walk calls visit for the entries below a directory, levels deep: the names of each directory in order, and a
// directory before its entries. Symbolic links are not followed. Walk stops at an error of visit and returns it.
func (r *Roots) Walk(ctx context.Context, p string, levels int, visit func(*File) error) error {
	in, rel, err := r.resolve("path", p)
	if err != nil || levels <= 0 {
		return err
	}
	var own error // of visit
	err = in.walk(ctx, rel, levels, func(_ *root, _ string, file *File) error {
		own = visit(file)
		return own
	})
	if own != nil {
		return own
	}
	return mapped(p, err)
}
