package web

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

// Answer sends a body as JSON.
func (x *Exchange) Answer(status int, body any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // it is never put into HTML, and commands are full of < and &
	if err := encoder.Encode(body); err != nil {
		return err
	}
	return x.AnswerJSON(status, text.Bytes())
}

// AnswerJSON sends text, which is one line of JSON, for readers of lines. A failed write cannot be reported to anyone.
func (x *Exchange) AnswerJSON(status int, text []byte) error {
	return x.AnswerText(status, reprise.AppendJSONLine(nil, text))
}

// countedBytes is the size of a response from which net/http does not count it by itself.
const countedBytes = 2048

// AnswerText is AnswerJSON for a text that is sent unchanged.
func (x *Exchange) AnswerText(status int, text []byte) error {
	h := x.W.Header()
	h.Set("Content-Type", JSON)
	if len(text) >= countedBytes || x.R.Method == http.MethodHead {
		h.Set("Content-Length", strconv.Itoa(len(text)))
	}
	x.AllowWrite()
	x.W.WriteHeader(status)
	_, _ = x.W.Write(text)
	return nil
}

// Done sends an answer without a body.
func (x *Exchange) Done() error {
	x.W.WriteHeader(http.StatusNoContent)
	return nil
}

// AllowWrite gives the client the time for the next write.
func (x *Exchange) AllowWrite() { x.mux.AllowWrite(x.W) }

// AllowWrite is AllowWrite of an Exchange.
func (m *Mux) AllowWrite(w http.ResponseWriter) {
	if rec, ok := w.(*record); ok {
		rec.allowWrite(m.opts.WriteTimeout)
		return
	}
	// A ResponseWriter without deadlines has no network connection.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(m.opts.WriteTimeout))
}

// Refuse answers with the problem of err, for a handler that goes on afterwards.
func (x *Exchange) Refuse(err error) { x.mux.refuse(x.W, x.R, err) }

// UploadOffset is the header of the size that an upload has reached.
const UploadOffset = "Upload-Offset"

// refuse answers with a problem. It does nothing if an answer has begun or the client has disconnected. Only a client
// that disconnects cancels a request without a specific cause.
func (m *Mux) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if recordOf(w).Begun() || r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	p := problem.From(err)
	if p.Code == problem.CodeInternal {
		m.opts.Logger.ErrorContext(r.Context(), "a request failed",
			"id", recordOf(w).ID, "error", err, "path", httpserver.Clip(r.URL.Path, 256))
	}
	if p.Offset != nil { // for clients that do not read JSON
		w.Header().Set(UploadOffset, strconv.FormatInt(*p.Offset, 10))
	}
	m.AllowWrite(w)
	if face := recordOf(w).face; face != nil && face.Refuse != nil {
		recordOf(w).NoteProblem(p.Code)
		face.Refuse(w, r, err, &p)
		return
	}
	_ = problem.Write(w, p)
}

// InvalidStatus is for refusals of HTTP that have a status of their own: 405, 406, 415, 416.
func InvalidStatus(status int, detail string) problem.Problem {
	return problem.Invalid(status, "", detail)
}

// Unprocessable returns the problem for a well-formed body or parameter with an invalid value.
func Unprocessable(field, detail string) problem.Problem {
	return problem.Invalid(http.StatusUnprocessableEntity, field, detail)
}

// BadRequest refuses what could not be read.
func BadRequest(field, detail string) problem.Problem {
	return problem.Invalid(http.StatusBadRequest, field, detail)
}
