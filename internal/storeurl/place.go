package storeurl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"reprise"
)

// names is where the stores lie in a data directory whose URLs name no path, by the schemes of these URLs.
var names = map[string]string{"sqlite": "reprise.db", "log": "log"}

// Default returns the URL of the store in a data directory for which nobody has named one: SQLite if its file is there,
// with which earlier versions began, and otherwise the log.
func Default(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, names["sqlite"])); err == nil {
		return "sqlite:"
	}
	return "log:"
}

// OpenIn is Open for a URL that may name no path: the store then lies in a data directory. The errors name the flags of
// the program.
func OpenIn(ctx context.Context, dir, url string, opts *Options) (reprise.Store, error) {
	wrappers, base := Split(url)
	store, err := Open(ctx, strings.Join(append(wrappers, withPath(dir, base)), "+"), opts)
	switch {
	case errors.Is(err, ErrScheme):
		return nil, fmt.Errorf("--store %q: %w", Redact(url), ErrScheme)
	case errors.Is(err, ErrKeys):
		return nil, fmt.Errorf("%w; --store-keys names another file", err)
	}
	return store, err
}

// Path returns the file of a sqlite: URL or the directory of a log: URL, however it is wrapped. Without a path in the
// URL it lies in dir, which may be "".
func Path(dir, url string) (path string, ok bool) {
	_, base := Split(url)
	scheme, path, _ := strings.Cut(base, ":")
	name, ok := names[scheme]
	if path == "" && dir != "" {
		path = filepath.Join(dir, name)
	}
	return path, ok
}

// Paths returns the files of a sqlite: URL, or the directory of a log: URL.
func Paths(dir, url string) []string {
	path, ok := Path(dir, url)
	if !ok {
		return nil
	}
	if _, base := Split(url); strings.HasPrefix(base, "log:") {
		return []string{path}
	}
	return []string{path, path + "-wal", path + "-shm"}
}

// withPath is a URL without wrappers, with the path that it stands for.
func withPath(dir, base string) string {
	path, ok := Path(dir, base)
	if !ok {
		return base
	}
	scheme, _, _ := strings.Cut(base, ":")
	return scheme + ":" + path
}

// Text returns a URL as it is shown: with the path in dir, and without passwords.
func Text(dir, url string) string {
	wrappers, base := Split(url)
	return strings.Join(append(wrappers, Redact(withPath(dir, base))), "+")
}

// IsRemote reports whether the store is on another server, which may come later.
func IsRemote(url string) bool {
	_, base := Split(url)
	return strings.Contains(base, "://")
}
