package api

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"

	"reprise"
	"reprise/internal/files"
	"reprise/internal/problem"
)

// filesPath is the prefix of the paths that need Options.Files.
const filesPath = "/v1/files"

// uploadOffsetHeader is, in a refusal, the number of bytes that an upload has.
const uploadOffsetHeader = "Upload-Offset"

// filesOf returns the roots for a sender that may use files. These belong to the operator's tenant. A sender whose
// scope is limited to some names may not use them, because files have no session.
func (s *Server) filesOf(x *exchange) (*files.Roots, error) {
	if x.who.Tenant != reprise.DefaultTenant || !x.who.MayAll(x.scope) {
		return nil, fmt.Errorf("%w: there are no files", reprise.ErrNotFound)
	}
	return s.opts.Files, nil
}

// fileList is a page of files.
type fileList struct {
	Files      []files.File `json:"files"`
	NextCursor string       `json:"next_cursor"`
}

func (s *Server) answerFiles(x *exchange, page files.Page) error {
	list := fileList{Files: page.Files, NextCursor: base64.RawURLEncoding.EncodeToString([]byte(page.Next))}
	if list.Files == nil {
		list.Files = []files.File{}
	}
	return s.answer(x, http.StatusOK, list)
}

// filePage reads what every list of files takes. Its cursors are names, which may be any bytes.
func (q query) filePage() (limit int, after string, err error) {
	limit, cursor, err := q.page()
	if err != nil {
		return 0, "", err
	}
	name, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", badRequest("cursor", "it is none of this list")
	}
	return limit, string(name), nil
}

func (s *Server) listFiles(x *exchange) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	limit, after, err := x.query.filePage()
	if err != nil {
		return err
	}
	page, err := roots.List(x.query.text("path"), limit, after)
	if err != nil {
		return err
	}
	return s.answerFiles(x, page)
}

func (s *Server) searchFiles(x *exchange) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	limit, after, err := x.query.filePage()
	if err != nil {
		return err
	}
	page, err := roots.Search(x.r.Context(), files.Query{
		Path: x.query.text("path"), Name: x.query.text("name"), Text: x.query.text("text"), Limit: limit, After: after,
	})
	if err != nil {
		return err
	}
	return s.answerFiles(x, page)
}

func (s *Server) showFile(x *exchange) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	checksum, err := x.query.flag("checksum")
	if err != nil {
		return err
	}
	if !checksum {
		file, err := roots.Show(x.query.text("path"))
		if err != nil {
			return err
		}
		return s.answer(x, http.StatusOK, file)
	}
	content, err := roots.Content(x.r.Context(), x.query.text("path"))
	if err != nil {
		return err
	}
	defer content.Close()
	if content.File.SHA256, err = content.Sum(x.r.Context()); err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, content.File)
}

func (s *Server) removeFile(x *exchange) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	recursive, err := x.query.flag("recursive")
	if err != nil {
		return err
	}
	if err := roots.Remove(x.query.text("path"), recursive); err != nil {
		return err
	}
	return x.done()
}

// changeFile answers with the file that results from the change in the body B.
func changeFile[B any](s *Server, x *exchange, change func(*files.Roots, *B) (files.File, error)) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	var body B
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	file, err := change(roots, &body)
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, file)
}

func (s *Server) moveFile(x *exchange) error {
	type move struct {
		From      string `json:"from"`
		To        string `json:"to"`
		Overwrite bool   `json:"overwrite"`
	}
	return changeFile(s, x, func(roots *files.Roots, m *move) (files.File, error) {
		return roots.Move(m.From, m.To, m.Overwrite)
	})
}

func (s *Server) makeDirectory(x *exchange) error {
	type directory struct {
		Path    string `json:"path"`
		Mode    string `json:"mode"`
		Parents bool   `json:"parents"`
	}
	return changeFile(s, x, func(roots *files.Roots, d *directory) (files.File, error) {
		return roots.MakeDirectory(d.Path, d.Mode, d.Parents)
	})
}

func (s *Server) setFileMode(x *exchange) error {
	type permissions struct {
		Path string `json:"path"`
		Mode string `json:"mode"`
	}
	return changeFile(s, x, func(roots *files.Roots, p *permissions) (files.File, error) {
		return roots.SetMode(p.Path, p.Mode)
	})
}

// setUploadOffset repeats the offset of a refusal in a header, for clients that do not read JSON.
func setUploadOffset(h http.Header, p *problem.Problem) {
	if p.Offset != nil {
		h.Set(uploadOffsetHeader, strconv.FormatInt(*p.Offset, 10))
	}
}
