package files

import (
	"encoding/base64"
	"fmt"
	"net/http"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/reads"
	"reprise/internal/web"
)

// filesPath is the prefix of the paths of files.
const filesPath = "/v1/files"

// API gives access to files over HTTP.
type API struct {
	Roots *Roots
	// Watches are what watches the directories, nil for nothing.
	Watches *Watches
	Reads   *reads.Service
	Quotas  *quota.Book
}

// Routes implements web.Part. A sender that may start commands may also
// write files, because each permits the other.
func (a API) Routes(m *web.Mux) {
	const read, write = identity.ScopeRead, identity.ScopeRun
	list := []string{"path", "limit", "cursor"}
	upload := []string{"path", "offset", "size", "sha256", "mode", "overwrite", "parents"}
	m.Handle("GET", filesPath, read, list, a.list)
	m.Handle("DELETE", filesPath, write, []string{"path", "recursive"}, a.remove)
	m.Handle("GET", filesPath+"/stat", read, []string{"path", "checksum"}, a.show)
	m.Handle("GET", filesPath+"/search", read, append([]string{"name", "text"}, list...), a.search)
	m.Handle("GET", filesPath+"/content", read, []string{"path"}, a.read)
	m.Handle("PUT", filesPath+"/content", write, upload, a.write)
	m.Handle("GET", filesPath+"/upload", write, []string{"path", "size", "sha256"}, a.showUpload)
	m.Handle("POST", filesPath+"/move", write, nil, a.move)
	m.Handle("POST", filesPath+"/directory", write, nil, a.makeDirectory)
	m.Handle("POST", filesPath+"/permissions", write, nil, a.setFileMode)
	m.Handle("POST", filesPath+"/watches", read, nil, a.startWatch)
	m.Handle("GET", filesPath+"/watches/{id}/events", read, reads.Parameters, a.watchEvents)
	m.Handle("DELETE", filesPath+"/watches/{id}", write, nil, a.removeWatch)
}

// For returns the roots for a sender that may use them. They belong to the operator's tenant. A sender whose
// scope is limited to some names may not use them, because files have no session.
func (a API) For(x *web.Exchange) (*Roots, error) {
	if a.Roots == nil || x.Who.Tenant != reprise.DefaultTenant || !x.Who.MayAll(x.Scope) {
		return nil, fmt.Errorf("%w: there are no files", reprise.ErrNotFound)
	}
	return a.Roots, nil
}

// fileList is a page of
type fileList struct {
	Files      []File `json:"files"`
	NextCursor string `json:"next_cursor"`
}

func (a API) answer(x *web.Exchange, page Page) error {
	list := fileList{Files: page.Files, NextCursor: base64.RawURLEncoding.EncodeToString([]byte(page.Next))}
	if list.Files == nil {
		list.Files = []File{}
	}
	return x.Answer(http.StatusOK, list)
}

// filePage reads what every list of files takes. Its cursors are names, which may be any bytes.
func filePage(q web.Query) (limit int, after string, err error) {
	limit, cursor, err := q.Page()
	if err != nil {
		return 0, "", err
	}
	name, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", web.BadRequest("cursor", "it is none of this list")
	}
	return limit, string(name), nil
}

func (a API) list(x *web.Exchange) error {
	roots, err := a.For(x)
	if err != nil {
		return err
	}
	limit, after, err := filePage(x.Query)
	if err != nil {
		return err
	}
	page, err := roots.List(x.Query.Text("path"), limit, after)
	if err != nil {
		return err
	}
	return a.answer(x, page)
}

func (a API) search(x *web.Exchange) error {
	roots, err := a.For(x)
	if err != nil {
		return err
	}
	limit, after, err := filePage(x.Query)
	if err != nil {
		return err
	}
	page, err := roots.Search(x.R.Context(), Query{
		Path: x.Query.Text("path"), Name: x.Query.Text("name"), Text: x.Query.Text("text"), Limit: limit, After: after,
	})
	if err != nil {
		return err
	}
	return a.answer(x, page)
}

func (a API) show(x *web.Exchange) error {
	roots, err := a.For(x)
	if err != nil {
		return err
	}
	checksum, err := x.Query.Flag("checksum")
	if err != nil {
		return err
	}
	if !checksum {
		file, err := roots.Show(x.Query.Text("path"))
		if err != nil {
			return err
		}
		return x.Answer(http.StatusOK, file)
	}
	content, err := roots.Content(x.R.Context(), x.Query.Text("path"))
	if err != nil {
		return err
	}
	defer content.Close()
	if content.File.SHA256, err = content.Sum(x.R.Context()); err != nil {
		return err
	}
	return x.Answer(http.StatusOK, content.File)
}

func (a API) remove(x *web.Exchange) error {
	roots, err := a.For(x)
	if err != nil {
		return err
	}
	recursive, err := x.Query.Flag("recursive")
	if err != nil {
		return err
	}
	if err := roots.Remove(x.Query.Text("path"), recursive); err != nil {
		return err
	}
	return x.Done()
}

// changeFile answers with the file that results from the change in the body B.
func changeFile[B any](a API, x *web.Exchange, change func(*Roots, *B) (File, error)) error {
	roots, err := a.For(x)
	if err != nil {
		return err
	}
	var body B
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	file, err := change(roots, &body)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, file)
}

func (a API) move(x *web.Exchange) error {
	type move struct {
		From      string `json:"from"`
		To        string `json:"to"`
		Overwrite bool   `json:"overwrite"`
	}
	return changeFile(a, x, func(roots *Roots, m *move) (File, error) {
		return roots.Move(m.From, m.To, m.Overwrite)
	})
}

func (a API) makeDirectory(x *web.Exchange) error {
	type directory struct {
		Path    string `json:"path"`
		Mode    string `json:"mode"`
		Parents bool   `json:"parents"`
	}
	return changeFile(a, x, func(roots *Roots, d *directory) (File, error) {
		return roots.MakeDirectory(d.Path, d.Mode, d.Parents)
	})
}

func (a API) setFileMode(x *web.Exchange) error {
	type permissions struct {
		Path string `json:"path"`
		Mode string `json:"mode"`
	}
	return changeFile(a, x, func(roots *Roots, p *permissions) (File, error) {
		return roots.SetMode(p.Path, p.Mode)
	})
}
