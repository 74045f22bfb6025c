package isolation

import (
	"os"
	"slices"
	"strings"
)

// Replaceable returns the hidden paths that are hidden only until another file gets their name: all but directories and
// what is below a hidden directory.
func Replaceable(hidden []string) (files []string) {
	isDir := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	}
	for _, path := range hidden {
		covered := func(dir string) bool { return isDir(dir) && (path == dir || strings.HasPrefix(path, dir+"/")) }
		if !slices.ContainsFunc(hidden, covered) {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
