package api

import (
	"encoding/base64"
	"fmt"
	"net/http"

	"reprise"
	"reprise/internal/files"
	"reprise/internal/web"
)

// filesPath is the prefix of the paths that need Options.Files.
const filesPath = "/v1/files"

// filesOf returns the roots for a sender that may use files. These belong to the operator's tenant. A sender whose
// scope is limited to some names may not use them, because files have no session.
func (s *Server) filesOf(x *web.Exchange) (*files.Roots, error) {
	if x.Who.Tenant != reprise.DefaultTenant || !x.Who.MayAll(x.Scope) {
		return nil, fmt.Errorf("%w: there are no files", reprise.ErrNotFound)
	}
	return s.opts.Files, nil
}

// fileList is a page of files.
type fileList struct {
	Files      []files.File `json:"files"`
	NextCursor string       `json:"next_cursor"`
}

func (s *Server) answerFiles(x *web.Exchange, page files.Page) error {
	list := fileList{Files: page.Files, NextCursor: base64.RawURLEncoding.EncodeToString([]byte(page.Next))}
	if list.Files == nil {
		list.Files = []files.File{}
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

func (s *Server) listFiles(x *web.Exchange) error {
	roots, err := s.filesOf(x)
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
	return s.answerFiles(x, page)
}

func (s *Server) searchFiles(x *web.Exchange) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	limit, after, err := filePage(x.Query)
	if err != nil {
		return err
	}
	page, err := roots.Search(x.R.Context(), files.Query{
		Path: x.Query.Text("path"), Name: x.Query.Text("name"), Text: x.Query.Text("text"), Limit: limit, After: after,
	})
	if err != nil {
		return err
	}
	return s.answerFiles(x, page)
}

func (s *Server) showFile(x *web.Exchange) error {
	roots, err := s.filesOf(x)
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

func (s *Server) removeFile(x *web.Exchange) error {
	roots, err := s.filesOf(x)
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
func changeFile[B any](s *Server, x *web.Exchange, change func(*files.Roots, *B) (files.File, error)) error {
	roots, err := s.filesOf(x)
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

func (s *Server) moveFile(x *web.Exchange) error {
	type move struct {
		From      string `json:"from"`
		To        string `json:"to"`
		Overwrite bool   `json:"overwrite"`
	}
	return changeFile(s, x, func(roots *files.Roots, m *move) (files.File, error) {
		return roots.Move(m.From, m.To, m.Overwrite)
	})
}

func (s *Server) makeDirectory(x *web.Exchange) error {
	type directory struct {
		Path    string `json:"path"`
		Mode    string `json:"mode"`
		Parents bool   `json:"parents"`
	}
	return changeFile(s, x, func(roots *files.Roots, d *directory) (files.File, error) {
		return roots.MakeDirectory(d.Path, d.Mode, d.Parents)
	})
}

func (s *Server) setFileMode(x *web.Exchange) error {
	type permissions struct {
		Path string `json:"path"`
		Mode string `json:"mode"`
	}
	return changeFile(s, x, func(roots *files.Roots, p *permissions) (files.File, error) {
		return roots.SetMode(p.Path, p.Mode)
	})
}
