package files

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"reprise/internal/problem"
	"reprise/internal/quota"
	"reprise/internal/web"
)

// read answers with a file, or a range of it.
func (a API) read(x *web.Exchange) error {
	roots, err := a.For(x)
	if err != nil {
		return err
	}
	content, err := roots.Content(x.R.Context(), x.Query.Text("path"))
	if err != nil {
		return err
	}
	defer content.Close()
	return content.Serve(x)
}

// Serve answers with the file, or the range of it that is asked for. Every byte of the answer belongs to the version in
// ETag: if the file changes meanwhile, the answer ends early.
func (c *Content) Serve(x *web.Exchange) error {
	h, size := x.W.Header(), c.File.Size
	h.Set("ETag", c.File.ETag)
	h.Set("Accept-Ranges", "bytes")
	if x.R.Header.Get("If-None-Match") == c.File.ETag {
		x.W.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, status := web.Span{Length: size}, http.StatusOK
	// If the condition does not hold, the answer is the whole file (RFC 9110, section 13.1.5). A date never holds.
	condition := x.R.Header.Get("If-Range")
	if header := x.RangeHeader(); header != "" && (condition == "" || condition == c.File.ETag) {
		ranged, verdict := web.ParseRange(header, size)
		switch verdict {
		case web.RangeUnsatisfiable:
			h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
			return web.InvalidStatus(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("there are %d bytes", size))
		case web.RangeGood:
			part, status = ranged, http.StatusPartialContent
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Start, part.Start+part.Length-1, size))
		}
	}
	return c.send(x, part, status)
}

func (c *Content) send(x *web.Exchange, part web.Span, status int) error {
	h := x.W.Header()
	h.Set("Content-Type", web.Bytes)
	h.Set("Content-Length", strconv.FormatInt(part.Length, 10))
	h.Set("Last-Modified", c.File.Modified.UTC().Format(http.TimeFormat))
	x.AllowWrite()
	x.W.WriteHeader(status)
	if x.R.Method == http.MethodHead {
		return nil
	}
	w := x.Steady(false)
	in := io.NewSectionReader(c, part.Start, part.Length)
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{in}, make([]byte, fileBuffer))
	if err != nil || n != part.Length {
		if errors.Is(err, ErrChanged) {
			x.Record().NoteProblem(problem.CodeConflict)
		}
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return nil
}

// fileBuffer is the size of a read and of a write.
const fileBuffer = 256 << 10

// uploadOf reads the parameters of an upload.
func uploadOf(q web.Query) (u Upload, err error) {
	const most = 1<<63 - 1
	u = Upload{Path: q.Text("path"), SHA256: q.Text("sha256"), Mode: q.Text("mode")}
	if u.Offset, err = q.Number("offset", -1, 0, most); err != nil {
		return u, err
	}
	if u.Size, err = q.Number("size", -1, 0, most); err != nil {
		return u, err
	}
	if u.Parents, err = q.Flag("parents"); err != nil {
		return u, err
	}
	if q.Text("overwrite") != "" {
		overwrite, err := q.Flag("overwrite")
		u.Keep = !overwrite
		return u, err
	}
	return u, nil
}

// writeFile takes a file, or bytes of one from an offset on.
func (a API) write(x *web.Exchange) error {
	roots, err := a.For(x)
	if err != nil {
		return err
	}
	u, err := uploadOf(x.Query)
	if err != nil {
		return err
	}
	if u.Size < 0 && x.R.ContentLength >= 0 {
		u.Size = x.R.ContentLength
	}
	progress, err := roots.Write(x.R.Context(), u, a.Quotas.Upload(x.Who.Holder(), x.R.Body))
	if err != nil {
		return uploadError(err)
	}
	return x.Answer(http.StatusOK, progress)
}

// uploadError classifies the errors of reading an upload.
func uploadError(err error) error {
	if cut, ok := errors.AsType[*BodyError](err); ok {
		if refused, ok := errors.AsType[*quota.Error](cut.Err); ok {
			return refused
		}
		return web.BodyError(cut.Err)
	}
	return err
}

// showUpload answers with the progress of an upload.
func (a API) showUpload(x *web.Exchange) error {
	roots, err := a.For(x)
	if err != nil {
		return err
	}
	u, err := uploadOf(x.Query)
	if err != nil {
		return err
	}
	progress, err := roots.Progress(x.R.Context(), u)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, progress)
}
