package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bytes is the media type of any bytes.
const Bytes = "application/octet-stream"

// SteadyWriter limits how long the client takes for each write, and ends with the request.
type SteadyWriter struct {
	ctx     context.Context
	w       io.Writer
	rc      *http.ResponseController
	timeout time.Duration
	flush   bool
}

// Steady returns a SteadyWriter for the body of the answer. With flush, each write is sent at once.
func (x *Exchange) Steady(flush bool) *SteadyWriter {
	return &SteadyWriter{
		ctx: x.R.Context(), w: x.W, rc: http.NewResponseController(x.W), timeout: x.mux.opts.WriteTimeout, flush: flush,
	}
}

// Write implements io.Writer.
func (w *SteadyWriter) Write(b []byte) (int, error) {
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

// Span is a part of the bytes of something.
type Span struct{ Start, Length int64 }

// What becomes of the header Range.
const (
	RangeIgnored = iota
	RangeGood
	RangeUnsatisfiable
)

// RangeHeader returns the header Range, or "" for a HEAD: it is defined for GET only (RFC 9110, section 14.2).
func (x *Exchange) RangeHeader() string {
	if x.R.Method != http.MethodGet {
		return ""
	}
	return x.R.Header.Get("Range")
}

// ParseRange reads the header Range (RFC 9110, section 14.2). It ignores a header that is malformed, has another unit
// or requests several parts, as the standard allows.
func ParseRange(header string, size int64) (Span, int) {
	unit, set, ok := strings.Cut(header, "=")
	if !ok || !strings.EqualFold(unit, "bytes") || strings.Contains(set, ",") {
		return Span{}, RangeIgnored
	}
	from, to, ok := strings.Cut(strings.TrimSpace(set), "-")
	if !ok {
		return Span{}, RangeIgnored
	}
	last, toOK := parseOffset(to)
	if from == "" { // the last bytes
		switch {
		case !toOK:
			return Span{}, RangeIgnored
		case last == 0 || size == 0:
			return Span{}, RangeUnsatisfiable
		}
		last = min(last, size)
		return Span{size - last, last}, RangeGood
	}
	first, fromOK := parseOffset(from)
	switch {
	case !fromOK, to != "" && (!toOK || last < first):
		return Span{}, RangeIgnored
	case first >= size:
		return Span{}, RangeUnsatisfiable
	case to == "":
		last = size - 1
	}
	return Span{first, min(last, size-1) - first + 1}, RangeGood
}

// parseOffset reads digits and nothing else. A number that is too large becomes the largest one.
func parseOffset(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil || errors.Is(err, strconv.ErrRange)
}
