package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"reprise/internal/execution"
	"reprise/internal/web"
)

// executionOutput answers with the exact bytes of a channel: the present ones, a range of them, or with follow=true all
// bytes until the end as they arrive. The parameter offset skips the bytes before it. A follower uses it to resume,
// because a Range needs an end, which is not known yet.
func (s *Server) executionOutput(x *web.Exchange) error {
	id, channel := x.R.PathValue("id"), path.Base(x.R.URL.Path)
	if err := s.mayReadExecution(x, id); err != nil {
		return err
	}
	offset, err := x.Query.Number("offset", 0, 0, 1<<63-1)
	if err != nil {
		return err
	}
	follow, err := x.Query.Flag("follow")
	if err != nil {
		return err
	}
	if follow && x.R.Method != http.MethodHead {
		if err := s.enter(x); err != nil {
			return err
		}
		x.EndWithServer()
		x.EndWithConnection()
		x.AtEnd(s.host.FollowIf(x.R.Context(), x.Who.Tenant, id, x.Who.MayLeave))
	}
	output, err := s.host.Output(x.R.Context(), x.Who.Tenant, id, channel)
	if err != nil {
		return err
	}
	part := span{start: offset, length: max(output.Size()-offset, 0)}
	if offset > output.Size() && (!follow || output.Ended()) {
		return s.unsatisfiable(x, output)
	}
	status := http.StatusOK
	if header := rangeHeader(x); header != "" && !follow && offset == 0 && x.R.Header.Get("If-Range") == "" {
		ranged, verdict := parseRange(header, output.Size())
		switch verdict {
		case rangeUnsatisfiable:
			return s.unsatisfiable(x, output)
		case rangeGood:
			part, status = ranged, http.StatusPartialContent
		}
	}
	if part.start < output.First() && (part.length > 0 || follow) {
		return &execution.LostError{Channel: channel, Asked: part.start, First: output.First()}
	}
	return s.sendOutput(x, output, part, status, follow)
}

// sendOutput answers with one part of the output.
func (s *Server) sendOutput(x *web.Exchange, output *execution.Output, part span, status int, follow bool) error {
	h := x.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	if follow {
		h.Set("X-Accel-Buffering", "no")
		part.length = -1
	} else {
		h.Set("Accept-Ranges", "bytes")
		h.Set("Content-Length", strconv.FormatInt(part.length, 10))
	}
	if status == http.StatusPartialContent {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.start, part.start+part.length-1, output.Size()))
	}
	x.AllowWrite()
	x.W.WriteHeader(status)
	if x.R.Method == http.MethodHead {
		return nil
	}
	w := s.steady(x)
	w.flush = follow
	if follow {
		_ = w.rc.Flush() // the client learns that it is being served
	}
	n, err := output.Copy(x.R.Context(), w, part.start, part.length, follow)
	if err != nil || !follow && n != part.length {
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return nil
}

func (s *Server) unsatisfiable(x *web.Exchange, output *execution.Output) error {
	x.W.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", output.Size()))
	return web.InvalidStatus(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("there are %d bytes", output.Size()))
}

// steadyWriter limits how long the client takes for each write, and ends with the request.
type steadyWriter struct {
	ctx     context.Context
	w       io.Writer
	rc      *http.ResponseController
	timeout time.Duration
	flush   bool // after each write
}

func (s *Server) steady(x *web.Exchange) *steadyWriter {
	return &steadyWriter{
		ctx: x.R.Context(), w: x.W, rc: http.NewResponseController(x.W), timeout: s.opts.WriteTimeout,
	}
}

func (w *steadyWriter) Write(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	// A ResponseWriter without deadlines has no network connection.
	_ = w.rc.SetWriteDeadline(time.Now().Add(w.timeout))
	n, err := w.w.Write(b)
	if err == nil && w.flush {
		err = w.rc.Flush()
	}
	return n, err
}

// span is a part of the bytes of a channel.
type span struct{ start, length int64 }

// What becomes of the header Range.
const (
	rangeIgnored = iota
	rangeGood
	rangeUnsatisfiable
)

// rangeHeader returns the header Range, or "" for a HEAD: it is defined for GET only (RFC 9110, section 14.2).
func rangeHeader(x *web.Exchange) string {
	if x.R.Method != http.MethodGet {
		return ""
	}
	return x.R.Header.Get("Range")
}

// parseRange reads the header Range (RFC 9110, section 14.2). It ignores a header that is malformed, has another unit
// or requests several parts, as the standard allows.
func parseRange(header string, size int64) (span, int) {
	unit, set, ok := strings.Cut(header, "=")
	if !ok || !strings.EqualFold(unit, "bytes") || strings.Contains(set, ",") {
		return span{}, rangeIgnored
	}
	from, to, ok := strings.Cut(strings.TrimSpace(set), "-")
	if !ok {
		return span{}, rangeIgnored
	}
	last, toOK := parseOffset(to)
	if from == "" { // the last bytes
		switch {
		case !toOK:
			return span{}, rangeIgnored
		case last == 0 || size == 0:
			return span{}, rangeUnsatisfiable
		}
		last = min(last, size)
		return span{size - last, last}, rangeGood
	}
	first, fromOK := parseOffset(from)
	switch {
	case !fromOK, to != "" && (!toOK || last < first):
		return span{}, rangeIgnored
	case first >= size:
		return span{}, rangeUnsatisfiable
	case to == "":
		last = size - 1
	}
	return span{first, min(last, size-1) - first + 1}, rangeGood
}

// parseOffset reads digits and nothing else. A number that is too large becomes the largest one.
func parseOffset(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil || errors.Is(err, strconv.ErrRange)
}
