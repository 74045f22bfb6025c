package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"reprise/internal/files"
	"reprise/internal/problem"
	"reprise/internal/quota"
)

// readFile answers with a file, or a range of it. Every byte of the answer belongs to the version in ETag: if the file
// changes meanwhile, the answer ends early.
func (s *Server) readFile(x *exchange) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	content, err := roots.Content(x.r.Context(), x.query.text("path"))
	if err != nil {
		return err
	}
	defer content.Close()
	h, size := x.w.Header(), content.File.Size
	h.Set("ETag", content.File.ETag)
	h.Set("Accept-Ranges", "bytes")
	if x.r.Header.Get("If-None-Match") == content.File.ETag {
		x.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, status := span{0, size}, http.StatusOK
	// If the condition does not hold, the answer is the whole file (RFC 9110, section 13.1.5). A date never holds.
	condition := x.r.Header.Get("If-Range")
	if header := x.rangeHeader(); header != "" && (condition == "" || condition == content.File.ETag) {
		ranged, verdict := parseRange(header, size)
		switch verdict {
		case rangeUnsatisfiable:
			h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
			return invalidStatus(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("there are %d bytes", size))
		case rangeGood:
			part, status = ranged, http.StatusPartialContent
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.start, part.start+part.length-1, size))
		}
	}
	return s.sendFile(x, content, part, status)
}

func (s *Server) sendFile(x *exchange, content *files.Content, part span, status int) error {
	h := x.w.Header()
	h.Set("Content-Type", bytesType)
	h.Set("Content-Length", strconv.FormatInt(part.length, 10))
	h.Set("Last-Modified", content.File.Modified.UTC().Format(http.TimeFormat))
	s.allowWrite(x.w)
	x.w.WriteHeader(status)
	if x.r.Method == http.MethodHead {
		return nil
	}
	w := s.steady(x)
	in := io.NewSectionReader(content, part.start, part.length)
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{in}, make([]byte, fileBuffer))
	if err != nil || n != part.length {
		if errors.Is(err, files.ErrChanged) {
			recordOf(x.w).NoteProblem(problem.CodeConflict)
		}
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return nil
}

// bytesType is the media type of any bytes.
const bytesType = "application/octet-stream"

// fileBuffer is the size of a read and of a write.
const fileBuffer = 256 << 10

// upload reads the parameters of an upload.
func (q query) upload() (u files.Upload, err error) {
	const most = 1<<63 - 1
	u = files.Upload{Path: q.text("path"), SHA256: q.text("sha256"), Mode: q.text("mode")}
	if u.Offset, err = q.number("offset", -1, 0, most); err != nil {
		return u, err
	}
	if u.Size, err = q.number("size", -1, 0, most); err != nil {
		return u, err
	}
	if u.Parents, err = q.flag("parents"); err != nil {
		return u, err
	}
	if q.text("overwrite") != "" {
		overwrite, err := q.flag("overwrite")
		u.Keep = !overwrite
		return u, err
	}
	return u, nil
}

// writeFile takes a file, or bytes of one from an offset on.
func (s *Server) writeFile(x *exchange) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	u, err := x.query.upload()
	if err != nil {
		return err
	}
	if u.Size < 0 && x.r.ContentLength >= 0 {
		u.Size = x.r.ContentLength
	}
	progress, err := roots.Write(x.r.Context(), u, s.opts.Quotas.Upload(x.who.Holder(), x.r.Body))
	if err != nil {
		return uploadError(err)
	}
	return s.answer(x, http.StatusOK, progress)
}

// uploadError classifies the errors of reading an upload.
func uploadError(err error) error {
	if cut, ok := errors.AsType[*files.BodyError](err); ok {
		if refused, ok := errors.AsType[*quota.Error](cut.Err); ok {
			return refused
		}
		return bodyError(cut.Err)
	}
	return err
}

// showUpload answers with the progress of an upload.
func (s *Server) showUpload(x *exchange) error {
	roots, err := s.filesOf(x)
	if err != nil {
		return err
	}
	u, err := x.query.upload()
	if err != nil {
		return err
	}
	progress, err := roots.Progress(x.r.Context(), u)
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, progress)
}
