package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"reprise/internal/isolation"
)

// Variable returns the value of a variable in an environment, or "" if it is not set.
func Variable(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// LookPath finds the program with the given name in the PATH of the command, which may differ from the PATH of the
// server, with the rights of the command's user. It skips relative entries, which would refer to the directory of the
// server.
func LookPath(as *isolation.User, name, path string) (found string, err error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	err = as.As(func() (err error) {
		found, err = search(name, path)
		return err
	})
	return found, err
}

// search is LookPath with the rights of the caller.
func search(name, path string) (string, error) {
	denied := false
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err == nil && info.Mode().IsRegular() {
			if info.Mode()&0o111 != 0 {
				return file, nil
			}
			denied = true
		}
	}
	if denied {
		return "", fmt.Errorf("%s: found in PATH, but not executable", name)
	}
	return "", fmt.Errorf("%s: not found in PATH", name)
}

// checkDir says in plain words why the user of a command cannot work in dir.
func checkDir(as *isolation.User, dir string) error {
	var info fs.FileInfo
	err := as.As(func() (err error) {
		info, err = os.Stat(dir)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cwd %s does not exist", dir)
	case err != nil:
		return fmt.Errorf("cwd: %w", err)
	case !info.IsDir():
		return fmt.Errorf("cwd %s is not a directory", dir)
	}
	return nil
}
