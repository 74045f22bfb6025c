package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// filesFlags name the directories that clients can access.
type filesFlags struct {
	Files []string `sep:"none" placeholder:"[NAME=]DIR" help:"Directory whose files clients may read and write, as NAME/...; NAME defaults to the base name of DIR. May be repeated. Default: none."`
}

// directories are the roots by name. None may contain, or lie in, secrets of the server.
func (f *filesFlags) directories(secrets ...string) (map[string]string, error) {
	roots := map[string]string{}
	for _, text := range f.Files {
		name, dir, named := strings.Cut(text, "=")
		if !named {
			name, dir = "", text
		}
		dir, err := realPath(dir)
		if err != nil {
			return nil, usage("--files %s: %w", text, err)
		}
		if name == "" {
			name = filepath.Base(dir)
		}
		if roots[name] != "" {
			return nil, usage("--files %s: there is another root called %s; name it with NAME=DIR", text, name)
		}
		for _, secret := range secrets {
			if secret, err = realPath(secret); err == nil && (isBelow(secret, dir) || isBelow(dir, secret)) {
				return nil, usage("--files %s: clients would get at %s, which is kept from them", text, secret)
			}
		}
		roots[name] = dir
	}
	return roots, nil
}

// realPath returns an absolute path without links for a path that may not exist yet.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return path, nil
	}
	return resolved, err
}

// isBelow reports whether path is dir or lies in it.
func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
