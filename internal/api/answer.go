package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/problem"
)

// answer sends a body as JSON.
func (s *Server) answer(x *exchange, status int, body any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // it is never put into HTML, and commands are full of < and &
	if err := encoder.Encode(body); err != nil {
		return err
	}
	return s.answerJSON(x, status, text.Bytes())
}

// answerJSON sends text, which is one line of JSON, for readers of lines. A failed write cannot be reported to anyone.
func (s *Server) answerJSON(x *exchange, status int, text []byte) error {
	return s.answerText(x, status, reprise.AppendJSONLine(nil, text))
}

// countedBytes is the size of a response from which net/http does not count it by itself.
const countedBytes = 2048

// answerText is answerJSON for a text that is sent unchanged.
func (s *Server) answerText(x *exchange, status int, text []byte) error {
	h := x.w.Header()
	h.Set("Content-Type", jsonType)
	if len(text) >= countedBytes || x.r.Method == http.MethodHead {
		h.Set("Content-Length", strconv.Itoa(len(text)))
	}
	s.allowWrite(x.w)
	x.w.WriteHeader(status)
	_, _ = x.w.Write(text)
	return nil
}

// done sends an answer without a body.
func (x *exchange) done() error {
	x.w.WriteHeader(http.StatusNoContent)
	return nil
}

// allowWrite gives the client the time for the next write.
func (s *Server) allowWrite(w http.ResponseWriter) {
	if rec, ok := w.(*record); ok {
		rec.allowWrite(s.opts.WriteTimeout)
		return
	}
	// A ResponseWriter without deadlines has no network connection.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
}

// refuse answers with a problem. It does nothing if an answer has begun or the client has disconnected. Only a client
// that disconnects cancels a request without a specific cause.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if recordOf(w).Begun() || r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	p := problem.From(err)
	if p.Code == problem.CodeInternal {
		s.opts.Logger.ErrorContext(r.Context(), "a request failed",
			"id", recordOf(w).ID, "error", err, "path", httpserver.Clip(r.URL.Path, 256))
	}
	setUploadOffset(w.Header(), &p)
	s.allowWrite(w)
	_ = problem.Write(w, p)
}

// invalidStatus is for refusals of HTTP that have a status of their own: 405, 406, 415, 416.
func invalidStatus(status int, detail string) problem.Problem {
	return problem.Invalid(status, "", detail)
}

// unprocessable returns the problem for a well-formed body or parameter with an invalid value.
func unprocessable(field, detail string) problem.Problem {
	return problem.Invalid(http.StatusUnprocessableEntity, field, detail)
}

// badRequest refuses what could not be read.
func badRequest(field, detail string) problem.Problem {
	return problem.Invalid(http.StatusBadRequest, field, detail)
}
