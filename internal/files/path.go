package files

import (
	"fmt"
	"net/http"
	"path"
	"strings"

	"reprise"
	"reprise/internal/problem"
)

// The bounds of a path and of one segment of it, in bytes, inclusive.
const (
	maxPath    = 4096
	maxSegment = 255
)

// stagingDir is the directory of a root in which uploads are collected. The API does not accept its path.
const stagingDir = ".reprise-uploads"

// FieldError names an invalid member of a request.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Problem implements problem.Teller.
func (e *FieldError) Problem(detail string) problem.Problem {
	return problem.Invalid(http.StatusUnprocessableEntity, e.Field, detail)
}

// checkPath refuses a path that is not below a root. field names the parameter in the error.
func checkPath(field, p string) error {
	refuse := func(reason string) error { return &FieldError{field, reason} }
	switch {
	case p == "":
		return refuse("a path is needed, which begins with the name of a root")
	case len(p) > maxPath:
		return refuse(fmt.Sprintf("a path has at most %d bytes", maxPath))
	case strings.IndexByte(p, 0) >= 0:
		return refuse("a path holds no NUL")
	case p[0] == '/':
		return refuse("a path is not absolute; it begins with the name of a root")
	}
	for segment := range strings.SplitSeq(p, "/") {
		switch {
		case segment == "..":
			return refuse(`a path has no segment ".."`)
		case segment == "" || segment == ".":
			return refuse(fmt.Sprintf("a path has no segment %q", segment))
		case len(segment) > maxSegment:
			return refuse(fmt.Sprintf("a name in a path has at most %d bytes", maxSegment))
		}
	}
	return nil
}

// resolve returns the root that a path begins with and the rest of the path, "." for the root itself.
func (r *Roots) resolve(field, p string) (in *root, rel string, err error) {
	if err := checkPath(field, p); err != nil {
		return nil, "", err
	}
	name, rel, _ := strings.Cut(p, "/")
	in = r.byName[name]
	if in == nil {
		return nil, "", fmt.Errorf("%w: there is no root %q", reprise.ErrNotFound, name)
	}
	if rel == "" {
		rel = "."
	}
	if first, _, _ := strings.Cut(rel, "/"); first == stagingDir {
		return nil, "", &FieldError{field, "the name " + stagingDir + " is the server's own"}
	}
	return in, rel, nil
}

// join returns the path of the entry rel of a root.
func (in *root) join(rel string) string { return path.Join(in.name, rel) }
