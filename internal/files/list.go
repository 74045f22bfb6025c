package files

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// Page is a part of a list. Next is "" on the last page.
type Page struct {
	Files []File
	Next  string
}

// List returns entries of a directory in the order of their names, at most limit of them and only those whose name
// comes after the name in after. The path "" lists the roots.
func (r *Roots) List(p string, limit int, after string) (Page, error) {
	if p == "" {
		return r.listRoots(limit, after)
	}
	in, rel, err := r.resolve("path", p)
	if err != nil {
		return Page{}, err
	}
	dir, names, err := in.names(rel)
	if err != nil {
		return Page{}, mapped(p, err)
	}
	defer dir.Close()
	var page Page
	for _, name := range names {
		if name <= after {
			continue
		}
		if len(page.Files) == limit {
			page.Next = page.Files[limit-1].Name()
			break
		}
		info, err := dir.Lstat(name)
		if err != nil {
			continue // it is gone by now
		}
		page.Files = append(page.Files, newFile(in, under(rel, name), info))
	}
	return page, nil
}

func (r *Roots) listRoots(limit int, after string) (page Page, err error) {
	for _, name := range r.Names() {
		if name <= after {
			continue
		}
		if len(page.Files) == limit {
			page.Next = page.Files[limit-1].Name()
			break
		}
		file, err := r.Show(name)
		if err != nil {
			return Page{}, err
		}
		page.Files = append(page.Files, file)
	}
	return page, nil
}

// under returns the path of an entry of the directory rel.
func under(rel, name string) string {
	if rel == "." {
		return name
	}
	return rel + "/" + name
}

// names opens a directory and returns the names in it in order. The caller closes the directory.
func (in *root) names(rel string) (*root, []string, error) {
	// Check first that it is a directory: opening a FIFO would wait for its writer.
	info, err := in.Stat(rel)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		return nil, nil, &FieldError{"path", "a directory is expected"}
	}
	opened, err := in.OpenRoot(rel)
	if err != nil {
		return nil, nil, err
	}
	names, err := entries(opened.FS())
	if err != nil {
		return nil, nil, errors.Join(err, opened.Close())
	}
	if rel == "." {
		names = slices.DeleteFunc(names, func(name string) bool { return name == stagingDir })
	}
	return &root{name: in.name, Root: opened}, names, nil
}

// entries returns the names in a directory in order.
func entries(dir fs.FS) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.(interface{ Readdirnames(n int) ([]string, error) }).Readdirnames(-1)
	slices.SortFunc(names, strings.Compare)
	return names, err
}

// Show describes one entry. A symbolic link is not followed.
func (r *Roots) Show(p string) (File, error) {
	in, rel, err := r.resolve("path", p)
	if err != nil {
		return File{}, err
	}
	info, err := in.Lstat(rel)
	if err != nil {
		return File{}, mapped(p, err)
	}
	return newFile(in, rel, info), nil
}
