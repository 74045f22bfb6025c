package execd

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/files"
	"reprise/internal/web"
)

// fileInfo is how a file is shown.
type fileInfo struct {
	Path     string    `json:"path"` // absolute
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified_at"`
	Created  time.Time `json:"created_at"` // the time of the last change: the creation is not known
	Owner    string    `json:"owner"`
	Group    string    `json:"group"`
	Mode     int       `json:"mode"` // the octal digits, read as a decimal number
}

// permission is what a file is to have. A mode of 0 leaves it.
type permission struct {
	Mode  int    `json:"mode"`
	Owner string `json:"owner"`
	Group string `json:"group"`
}

// tree is the files of the server as one sender sees them: by absolute paths.
type tree struct {
	*files.Roots
	api *API
}

func (a API) tree(x *web.Exchange) (*tree, error) {
	roots, err := a.Files.For(x)
	if err != nil {
		return nil, &refusal{
			http.StatusNotFound, codeNoFile, "no files are offered here; the server names directories with --files",
		}
	}
	return &tree{roots, &a}, nil
}

// locate returns the path of a file below a root.
func (t *tree) locate(p string) (string, error) {
	if p == "" {
		return "", missing("path")
	}
	if at, ok := t.Locate(files.Absolute(t.api.Dir, t.api.Home, p)); ok {
		return at, nil
	}
	return "", &refusal{http.StatusNotFound, codeNoFile, fmt.Sprintf("%s is in no directory that the server offers", p)}
}

// fileError gives an error of a file the code that execd has for it.
func fileError(err error) error {
	field, invalid := errors.AsType[*files.FieldError](err)
	switch {
	case err == nil:
		return nil
	case invalid:
		return &refusal{http.StatusBadRequest, codeFile, field.Error()}
	case errors.Is(err, reprise.ErrConflict):
		return runtimeError("%v", err)
	}
	return asCode(err, http.StatusNotFound, codeNoFile)
}

func (t *tree) info(f *files.File) fileInfo {
	mode, _ := strconv.Atoi(f.Mode) // digits
	kind := string(f.Type)
	switch f.Type {
	case files.TypeFile, files.TypeDirectory, files.TypeSymlink:
	default:
		kind = "other"
	}
	return fileInfo{
		Path: t.Absolute(f.Path), Type: kind, Size: f.Size, Modified: f.Modified.Time, Created: f.Modified.Time,
		Owner: f.Owner(), Group: f.Group(),
		Mode: mode,
	}
}

// mode returns permissions as Roots takes them, "" to leave them as they are.
func (p *permission) mode() (string, error) {
	if p.Mode == 0 {
		return "", nil
	}
	text := fmt.Sprintf("%04d", p.Mode)
	if n, err := strconv.ParseUint(text, 8, 32); err != nil || n > 0o777 {
		reason := fmt.Sprintf("mode %d: three octal digits are taken", p.Mode)
		return "", &refusal{http.StatusBadRequest, codeMetadata, reason}
	}
	return text, nil
}

// check refuses to change the owner of a file.
func (p *permission) check(t *tree, f *files.File) error {
	is := t.info(f)
	if p.Owner != "" && p.Owner != is.Owner || p.Group != "" && p.Group != is.Group {
		return &refusal{http.StatusBadRequest, codeMetadata, "owner and group are not changed here"}
	}
	return nil
}

// checkNew is check for a file that is made.
func (p *permission) checkNew(t *tree) error {
	return p.check(t, &files.File{UID: os.Getuid(), GID: os.Getgid()})
}

// info answers with the files of the parameters path.
func (a API) info(x *web.Exchange) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	found := map[string]fileInfo{}
	for _, p := range x.R.URL.Query()["path"] {
		at, err := t.locate(p)
		if err != nil {
			return err
		}
		f, err := t.Show(at)
		if err != nil {
			return fileError(err)
		}
		found[p] = t.info(&f)
	}
	return x.Answer(http.StatusOK, found)
}

// eachPath calls f with each of the parameters path.
func (a API) eachPath(x *web.Exchange, f func(t *tree, at string) error) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	paths := x.R.URL.Query()["path"]
	if len(paths) == 0 {
		return missing("path")
	}
	for _, p := range paths {
		at, err := t.locate(p)
		if err == nil {
			err = f(t, at)
		}
		if err != nil {
			return fileError(err)
		}
	}
	return empty(x)
}

func (a API) removeFiles(x *web.Exchange) error {
	return a.eachPath(x, func(t *tree, at string) error {
		if f, err := t.Show(at); err == nil && f.Type == files.TypeDirectory {
			return runtimeError("%s is a directory", at)
		}
		return t.Remove(at, false)
	})
}

func (a API) removeDirectories(x *web.Exchange) error {
	return a.eachPath(x, func(t *tree, at string) error { return t.Remove(at, true) })
}

// eachEntry calls f with each member of a body that maps paths to values.
func eachEntry[V any](a API, x *web.Exchange, f func(t *tree, p, at string, value *V) error) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	var body map[string]V
	if err := decode(x, &body); err != nil {
		return err
	}
	for p, value := range body {
		at, err := t.locate(p)
		if err == nil {
			err = f(t, p, at, &value)
		}
		if err != nil {
			return fileError(err)
		}
	}
	return nil
}

func (a API) setPermissions(x *web.Exchange) error {
	err := eachEntry(a, x, func(t *tree, _, at string, to *permission) error {
		f, err := t.Show(at)
		if err == nil {
			err = to.check(t, &f)
		}
		mode, bad := to.mode()
		if err = errors.Join(err, bad); err == nil && mode != "" {
			_, err = t.SetMode(at, mode)
		}
		return err
	})
	if err != nil {
		return err
	}
	return empty(x)
}

func (a API) makeDirectories(x *web.Exchange) error {
	err := eachEntry(a, x, func(t *tree, _, at string, with *permission) error {
		mode, err := with.mode()
		if err = errors.Join(err, with.checkNew(t)); err != nil {
			return err
		}
		if f, err := t.Show(at); err == nil && f.Type == files.TypeDirectory {
			return nil
		}
		_, err = t.MakeDirectory(at, mode, true)
		return err
	})
	if err != nil {
		return err
	}
	return empty(x)
}

func (a API) move(x *web.Exchange) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	var moves []struct {
		Src  string `json:"src"`
		Dest string `json:"dest"`
	}
	if err := decode(x, &moves); err != nil {
		return err
	}
	for _, m := range moves {
		from, err := t.locate(m.Src)
		if err != nil {
			return err
		}
		to, err := t.locate(m.Dest)
		if err == nil {
			_, err = t.Show(from)
		}
		if parent := path.Dir(to); err == nil && parent != "." {
			_, err = t.MakeDirectory(parent, "", true)
		}
		if err == nil {
			_, err = t.Move(from, to, false)
		}
		if err != nil {
			return fileError(err)
		}
	}
	return empty(x)
}

// maxListed bounds the entries of one answer.
const maxListed = 10_000

// errTooMany refuses a list that would be longer.
var errTooMany = &refusal{
	http.StatusInternalServerError, codeRuntime,
	fmt.Sprintf("there are more than %d entries: name a smaller directory", maxListed),
}

// search answers with the files below a directory whose name matches a pattern.
func (a API) search(x *web.Exchange) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	at, err := t.locate(x.R.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	found := []fileInfo{}
	q := files.Query{Path: at, Name: cmp.Or(x.R.URL.Query().Get("pattern"), "*"), Limit: 1000}
	for {
		page, err := t.Search(x.R.Context(), q)
		if err != nil {
			return fileError(err)
		}
		for n := range page.Files {
			if page.Files[n].Type == files.TypeFile {
				found = append(found, t.info(&page.Files[n]))
			}
		}
		if len(found) > maxListed {
			return errTooMany
		}
		if q.After = page.Next; q.After == "" {
			return x.Answer(http.StatusOK, found)
		}
	}
}

// list answers with the entries of a directory, and with those below down to a depth.
func (a API) list(x *web.Exchange) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	at, err := t.locate(x.R.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	depth := 1
	if text := x.R.URL.Query().Get("depth"); text != "" {
		if depth, err = strconv.Atoi(text); err != nil || depth < 0 {
			return badBody("depth: a number from 0 is taken")
		}
	}
	f, err := t.Show(at)
	if err == nil && f.Type != files.TypeDirectory {
		err = &refusal{http.StatusBadRequest, codeFile, at + " is no directory"}
	}
	found := []fileInfo{}
	if err == nil {
		err = t.Walk(x.R.Context(), at, depth, func(f *files.File) error {
			if len(found) == maxListed {
				return errTooMany
			}
			found = append(found, t.info(f))
			return nil
		})
	}
	if err != nil {
		return fileError(err)
	}
	return x.Answer(http.StatusOK, found)
}
