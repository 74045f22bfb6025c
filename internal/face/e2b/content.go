package e2b

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"reprise/internal/files"
	"reprise/internal/quota"
	"reprise/internal/web"
)

// written is how a file is shown that was written.
type written struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Path string `json:"path"`
}

// download answers with a file.
func (a API) download(x *web.Exchange) error {
	return a.at(x, x.R.URL.Query().Get("path"), func(t *tree, at string) error {
		content, err := t.Content(x.R.Context(), at)
		if err != nil {
			return err
		}
		defer content.Close()
		return content.Serve(x)
	})
}

// upload takes a file as the body, or files as the parts "file" of a form, whose names are their paths unless the
// request has one.
func (a API) upload(x *web.Exchange) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	given := x.R.URL.Query().Get("path")
	if web.MediaType(x.R) == "application/octet-stream" {
		one, err := a.save(x, t, given, x.R.Body)
		if err != nil {
			return err
		}
		return x.Answer(http.StatusOK, []written{one})
	}
	parts, err := x.R.MultipartReader()
	if err != nil {
		return invalid("%v", err)
	}
	list := []written{}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) && len(list) > 0 {
			return x.Answer(http.StatusOK, list)
		}
		if err != nil {
			return invalid("a form with a part file is needed, and it did not arrive whole")
		}
		if part.FormName() != "file" {
			continue
		}
		p := given
		if p == "" { // FileName has no directory
			_, params, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			p = params["filename"]
		}
		one, err := a.save(x, t, p, io.NopCloser(part))
		if err != nil {
			return err
		}
		list = append(list, one)
	}
}

// save writes a file.
func (a API) save(x *web.Exchange, t *tree, p string, body io.ReadCloser) (w written, err error) {
	at, err := t.locate(p)
	if err != nil {
		return w, err
	}
	up := files.Upload{Path: at, Offset: -1, Size: -1, Parents: true}
	_, err = t.Write(x.R.Context(), up, a.Files.Quotas.Upload(x.Who.Holder(), body))
	if cut, ok := errors.AsType[*files.BodyError](err); ok {
		if refused, ok := errors.AsType[*quota.Error](cut.Err); ok {
			return w, refused
		}
		return w, web.BodyError(cut.Err)
	}
	if err != nil {
		return w, fileError(err)
	}
	w.Path, w.Type = t.Absolute(at), "file"
	w.Name = w.Path[strings.LastIndexByte(w.Path, '/')+1:]
	return w, nil
}
