package execd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"

	"reprise/internal/files"
	"reprise/internal/quota"
	"reprise/internal/web"
)

// maxReplaced bounds a file in which text is replaced, before and after, and maxMetadata what is said of an upload.
const (
	maxReplaced = 64 << 20
	maxMetadata = 64 << 10
)

// replace replaces text in files.
func (a API) replace(x *web.Exchange) error {
	type change struct {
		Old string `json:"old"`
		New string `json:"new"`
	}
	type replaced struct {
		Count int `json:"replacedCount"`
	}
	counts := map[string]replaced{}
	err := eachEntry(a, x, func(t *tree, p, at string, c *change) error {
		if c.Old == "" {
			return badBody("%s: old is needed", p)
		}
		n, err := t.Replace(x.R.Context(), at, c.Old, c.New, maxReplaced)
		counts[p] = replaced{n}
		return err
	})
	if err != nil {
		return err
	}
	if x.R.URL.Query().Get("verbose") == "true" {
		return x.Answer(http.StatusOK, counts)
	}
	return empty(x)
}

// upload takes files: a part with what is said of it before each.
func (a API) upload(x *web.Exchange) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	parts, err := x.R.MultipartReader()
	if err != nil {
		return &refusal{http.StatusBadRequest, codeFile, err.Error()}
	}
	for n := 0; ; n++ {
		about, err := parts.NextPart()
		if errors.Is(err, io.EOF) && n > 0 {
			return empty(x)
		}
		if err != nil {
			return &refusal{http.StatusBadRequest, codeFile, "the parts metadata and file are needed"}
		}
		if about.FormName() != "metadata" {
			return &refusal{http.StatusBadRequest, codeMetadata, "the part metadata comes before its file"}
		}
		if err := a.uploadOne(x, t, about, parts); err != nil {
			return err
		}
	}
}

func (a API) uploadOne(x *web.Exchange, t *tree, about io.Reader, parts *multipart.Reader) error {
	var meta struct {
		Path string `json:"path"`
		permission
	}
	text, err := io.ReadAll(io.LimitReader(about, maxMetadata+1))
	if err == nil && len(text) > maxMetadata {
		err = fmt.Errorf("more than %d bytes", maxMetadata)
	}
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	if err != nil {
		return &refusal{http.StatusBadRequest, codeMetadata, "metadata: " + err.Error()}
	}
	at, err := t.locate(meta.Path)
	if err != nil {
		return err
	}
	mode, err := meta.mode()
	if err = errors.Join(err, meta.checkNew(t)); err != nil {
		return err
	}
	file, err := parts.NextPart()
	if err != nil || file.FormName() != "file" {
		return &refusal{http.StatusBadRequest, codeFile, "the part file comes behind its metadata"}
	}
	up := files.Upload{Path: at, Offset: -1, Size: -1, Mode: mode, Parents: true}
	_, err = t.Write(x.R.Context(), up, a.Files.Quotas.Upload(x.Who.Holder(), io.NopCloser(file)))
	if cut, ok := errors.AsType[*files.BodyError](err); ok {
		if refused, ok := errors.AsType[*quota.Error](cut.Err); ok {
			return refused
		}
		return web.BodyError(cut.Err)
	}
	return fileError(err)
}

// download answers with a file, a range of its bytes, or some of its lines.
func (a API) download(x *web.Exchange) error {
	t, err := a.tree(x)
	if err != nil {
		return err
	}
	q := x.R.URL.Query()
	at, err := t.locate(q.Get("path"))
	if err != nil {
		return err
	}
	byLine := q.Has("offset") || q.Has("limit")
	if byLine && x.R.Header.Get("Range") != "" {
		return badBody("a Range and lines are asked for together")
	}
	content, err := t.Content(x.R.Context(), at)
	if err != nil {
		return fileError(err)
	}
	defer content.Close()
	if byLine {
		return sendLines(x, content, q.Get("offset"), q.Get("limit"))
	}
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(at)})
	x.W.Header().Set("Content-Disposition", disposition)
	if first, _, several := strings.Cut(x.R.Header.Get("Range"), ","); several {
		x.R.Header.Set("Range", first)
	}
	return content.Serve(x)
}

// sendLines answers with lines of a file, the first of which is 1, without their ends and with LF between them.
func sendLines(x *web.Exchange, content *files.Content, offset, limit string) error {
	first, most := 1, -1
	for _, number := range []struct {
		text string
		n    *int
		name string
	}{{offset, &first, "offset"}, {limit, &most, "limit"}} {
		if number.text == "" {
			continue
		}
		n, err := strconv.Atoi(number.text)
		if err != nil || n < 1 {
			return badBody("%s: a number from 1 is taken", number.name)
		}
		*number.n = n
	}
	x.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	x.AllowWrite()
	x.W.WriteHeader(http.StatusOK)
	if err := content.CopyLines(x.Steady(false), first, most); err != nil {
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return nil
}
