package execd

import (
	"bufio"
	"bytes"
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
		content, err := t.Content(x.R.Context(), at)
		if err != nil {
			return err
		}
		defer content.Close()
		if content.File.Size > maxReplaced {
			return runtimeError("%s has more than %d bytes", p, maxReplaced)
		}
		text, err := io.ReadAll(io.NewSectionReader(content, 0, content.File.Size))
		if err != nil {
			return err
		}
		n := bytes.Count(text, []byte(c.Old))
		counts[p] = replaced{n}
		if n == 0 {
			return nil
		}
		if len(text)+n*(len(c.New)-len(c.Old)) > maxReplaced {
			return runtimeError("%s would have more than %d bytes", p, maxReplaced)
		}
		text = bytes.ReplaceAll(text, []byte(c.Old), []byte(c.New))
		up := files.Upload{Path: at, Offset: -1, Size: int64(len(text))}
		_, err = t.Write(x.R.Context(), up, bytes.NewReader(text))
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
	return sendBytes(x, content, path.Base(at))
}

func sendBytes(x *web.Exchange, content *files.Content, name string) error {
	size := content.File.Size
	part, status := web.Span{Length: size}, http.StatusOK
	h := x.W.Header()
	if header := x.RangeHeader(); header != "" {
		header, _, _ = strings.Cut(header, ",")
		ranged, verdict := web.ParseRange(header, size)
		switch verdict {
		case web.RangeUnsatisfiable:
			h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
			return &refusal{http.StatusRequestedRangeNotSatisfiable, codeRange, fmt.Sprintf("there are %d bytes", size)}
		case web.RangeGood:
			part, status = ranged, http.StatusPartialContent
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Start, part.Start+part.Length-1, size))
		}
	}
	h.Set("Content-Type", web.Bytes)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Length", strconv.FormatInt(part.Length, 10))
	x.AllowWrite()
	x.W.WriteHeader(status)
	in := io.NewSectionReader(content, part.Start, part.Length)
	n, err := io.CopyBuffer(struct{ io.Writer }{x.Steady(false)}, in, make([]byte, 256<<10))
	if err != nil || n != part.Length {
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return nil
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
	in := bufio.NewReaderSize(io.NewSectionReader(content, 0, content.File.Size), 256<<10)
	out := bufio.NewWriterSize(x.Steady(false), 256<<10)
	if err := copyLines(out, in, first, most); err != nil || out.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// copyLines copies lines from a number on, at most so many of them if that is not negative.
func copyLines(out *bufio.Writer, in *bufio.Reader, first, most int) error {
	for number := 1; most < 0 || number < first+most; number++ {
		begun, ended := false, false
		for !ended {
			piece, err := in.ReadSlice('\n')
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
				return err
			}
			if len(piece) == 0 && !begun {
				return nil // the file is over
			}
			ended = !errors.Is(err, bufio.ErrBufferFull)
			if number >= first {
				if !begun && number > first {
					_ = out.WriteByte('\n')
				}
				if ended {
					piece = bytes.TrimRight(piece, "\r\n")
				}
				_, _ = out.Write(piece) // Flush has the error
			}
			begun = true
		}
	}
	return nil
}
