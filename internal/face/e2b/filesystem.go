package e2b

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/files"
	"reprise/internal/web"
)

// entryInfo is how a file is shown. Numbers of 64 bits are text, as in all messages of protobuf in JSON.
type entryInfo struct {
	Name        string    `json:"name"`
	Type        string    `json:"type"`
	Path        string    `json:"path"` // absolute
	Size        string    `json:"size"`
	Mode        uint64    `json:"mode"`
	Permissions string    `json:"permissions"`
	Owner       string    `json:"owner"`
	Group       string    `json:"group"`
	Modified    time.Time `json:"modifiedTime"`
	Target      string    `json:"symlinkTarget,omitempty"`
}

// fileTypes are the types of files in the protocol; others have none.
var fileTypes = map[string]string{
	files.TypeFile: "FILE_TYPE_FILE", files.TypeDirectory: "FILE_TYPE_DIRECTORY",
	files.TypeSymlink: "FILE_TYPE_SYMLINK",
}

// tree is the files of the server as one sender sees them: by absolute paths.
type tree struct {
	*files.Roots
	api *API
}

func (a API) tree(x *web.Exchange) (*tree, error) {
	roots, err := a.Files.For(x)
	if err != nil {
		return nil, &refusal{codeNotFound, "no files are offered here; the server names directories with --files"}
	}
	return &tree{roots, &a}, nil
}

// absolute returns a path with its beginnings in place, "" for none.
func (a API) absolute(p string) string {
	if p == "" {
		return ""
	}
	return files.Absolute(a.Dir, a.Home, p)
}

// locate returns the path of a file below a root.
func (t *tree) locate(p string) (string, error) {
	if p == "" {
		return "", invalid("path is needed")
	}
	if at, ok := t.Locate(t.api.absolute(p)); ok {
		return at, nil
	}
	return "", &refusal{codeNotFound, p + " is in no directory that the server offers"}
}

func (t *tree) info(f *files.File) entryInfo {
	mode, _ := strconv.ParseUint(f.Mode, 8, 32) // digits
	kind := fileTypes[f.Type]
	if kind == "" {
		kind = "FILE_TYPE_UNSPECIFIED"
	}
	return entryInfo{
		Name: f.Name(), Type: kind, Path: t.Absolute(f.Path), Size: strconv.FormatInt(f.Size, 10), Mode: mode,
		Permissions: permissions(f.Type, mode), Owner: f.Owner(), Group: f.Group(), Modified: f.Modified.UTC(),
		Target: f.Target,
	}
}

// permissions returns a mode as "ls -l" prints it.
func permissions(kind string, mode uint64) string {
	text := []byte("-rwxrwxrwx")
	switch kind {
	case files.TypeDirectory:
		text[0] = 'd'
	case files.TypeSymlink:
		text[0] = 'L' // as envd, which is in Go
	}
	for bit := range 9 {
		if mode&(1<<(8-bit)) == 0 {
			text[bit+1] = '-'
		}
	}
	return string(text)
}

// fileError gives an error of a file the code that envd has for it.
func fileError(err error) error {
	field, bad := errors.AsType[*files.FieldError](err)
	switch {
	case err == nil:
		return nil
	case bad:
		return invalid("%s", field.Error())
	case errors.Is(err, reprise.ErrConflict):
		return &refusal{codeState, err.Error()}
	case errors.Is(err, reprise.ErrNotFound):
		return &refusal{codeNotFound, err.Error()}
	}
	return err
}

type pathRequest struct {
	Path      string `json:"path"`
	Depth     int    `json:"depth"`
	Recursive bool   `json:"recursive"`
}

// at calls f with the place of the path of a request.
func (a API) at(x *web.Exchange, p string, f func(t *tree, at string) error) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	at, err := t.locate(p)
	if err == nil {
		err = f(t, at)
	}
	return fileError(err)
}

// entry is the answer with one file.
type entry struct {
	Entry entryInfo `json:"entry"`
}

func (a API) stat(x *web.Exchange, q *pathRequest) (any, error) {
	var shown entry
	err := a.at(x, q.Path, func(t *tree, at string) error {
		f, err := t.Show(at)
		if err == nil {
			shown.Entry = t.info(&f)
		}
		return err
	})
	return shown, err
}

// maxListed bounds the entries of one answer.
const maxListed = 10_000

func (a API) listDir(x *web.Exchange, q *pathRequest) (any, error) {
	list := []entryInfo{}
	err := a.at(x, q.Path, func(t *tree, at string) error {
		f, err := t.Show(at)
		if err == nil && f.Type != files.TypeDirectory {
			err = invalid("%s is no directory", q.Path)
		}
		if err != nil {
			return err
		}
		return t.Walk(x.R.Context(), at, max(1, q.Depth), func(f *files.File) error {
			if len(list) == maxListed {
				return &refusal{codeExhausted, fmt.Sprintf("there are more than %d entries", maxListed)}
			}
			list = append(list, t.info(f))
			return nil
		})
	})
	return map[string]any{"entries": list}, err
}

func (a API) makeDir(x *web.Exchange, q *pathRequest) (any, error) {
	var made entry
	err := a.at(x, q.Path, func(t *tree, at string) error {
		if f, err := t.Show(at); err == nil && f.Type == files.TypeDirectory {
			return &refusal{codeExists, "the directory exists"}
		}
		f, err := t.MakeDirectory(at, "", true)
		if err == nil {
			made.Entry = t.info(&f)
		}
		return err
	})
	return made, err
}

func (a API) move(x *web.Exchange, q *struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
},
) (any, error) {
	var moved entry
	err := a.at(x, q.Source, func(t *tree, from string) error {
		to, err := t.locate(q.Destination)
		if err == nil {
			_, err = t.Show(from)
		}
		if parent := path.Dir(to); err == nil && parent != "." {
			_, err = t.MakeDirectory(parent, "", true)
		}
		var f files.File
		if err == nil {
			f, err = t.Move(from, to, true)
		}
		if err == nil {
			moved.Entry = t.info(&f)
		}
		return err
	})
	return moved, err
}

func (a API) removeFile(x *web.Exchange, q *pathRequest) (any, error) {
	return nothing{}, a.at(x, q.Path, func(t *tree, at string) error { return t.Remove(at, true) })
}
