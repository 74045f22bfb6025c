package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/problem"
)

// What the _meta of a result has for programs: the code of an error, and the facts of an execution.
const (
	metaError     = "reprise/error"
	metaExecution = "reprise/execution"
)

// explained is an error with information that helps a model to continue.
type explained struct {
	error
	// detail replaces the text of the error if it is not "".
	detail         string
	field          string
	earliest, tail string
}

// Unwrap returns the error that is explained.
func (e *explained) Unwrap() error { return e.error }

// named is the number of existing executions in the error for a missing one.
const named = 5

// unknown adds to the error for a missing execution the ids of existing ones. It returns other errors unchanged.
func (s *Server) unknown(ctx context.Context, c caller, id string, err error) error {
	expired := errors.Is(err, reprise.ErrExpired)
	if !expired && !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	what := "there is no execution %q"
	if expired {
		what = "the execution %q is no longer kept"
	}
	e := &explained{error: err, detail: fmt.Sprintf(what, shorten(id)), field: "execution_id"}
	page, listErr := s.listFor(ctx, &c, execution.ListQuery{Limit: named})
	switch {
	case listErr != nil:
		return e
	case len(page.Executions) == 0:
		e.detail += "; there are none yet: execute_code and execute_code_async start one"
		return e
	}
	ids := make([]string, len(page.Executions))
	for i := range page.Executions {
		ids[i] = fmt.Sprintf("%s (%s)", page.Executions[i].ID, page.Executions[i].Status)
	}
	e.detail += "; the newest are " + strings.Join(ids, ", ")
	if page.Next != "" {
		e.detail += "; list_executions has more"
	}
	return e
}

// shorten bounds what of an argument is said in an error.
func shorten(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "..."
	}
	return s
}

const maxShown = 128

// askable adds to the error for a refused cursor the cursors that are valid. It returns other errors unchanged.
func askable(ctx context.Context, stream *reprise.Stream, err error) error {
	_, outside := errors.AsType[*reprise.WindowError](err)
	if !outside && !errors.Is(err, reprise.ErrCursorMalformed) && !errors.Is(err, reprise.ErrCursorForeign) {
		return err
	}
	info, infoErr := stream.Info(ctx)
	if infoErr != nil {
		return err
	}
	e := &explained{
		error: err, field: "cursor",
		earliest: stream.Cursor(info.Earliest - 1).String(), tail: stream.Cursor(info.Tail).String(),
	}
	why := problem.From(err)
	what := strings.TrimSuffix(cmp.Or(why.Detail, why.Title), ".")
	switch {
	case errors.Is(err, reprise.ErrCursorForeign): // the internal name means nothing to a model
		what = "cursor: it is that of another execution"
	case errors.Is(err, reprise.ErrCursorMalformed):
		what = "cursor: it is not one that an answer has had"
	}
	e.detail = fmt.Sprintf("%s; leave cursor out or give %q to read from the beginning, %q to read on from the end, or a whole number from %d to %d",
		what, e.earliest, e.tail, info.Earliest-1, info.Tail)
	return e
}

// toolError is an error as a model sees it. Its text begins with the code.
type toolError struct{ problem problem.Problem }

func (e *toolError) Error() string {
	text := e.problem.Detail
	if text == "" {
		text = e.problem.Title
	}
	if e.problem.Retryable {
		text += " (try again later)"
	}
	return string(e.problem.Code) + ": " + text
}

func (e *toolError) Unwrap() error { return e.problem }

// failed is err as the error of a tool. A program error of ours says nothing but that.
func (s *Server) failed(tool string, err error) error {
	p := problem.From(err)
	switch {
	case errors.Is(err, identity.ErrForbidden):
		p = problem.New(problem.CodeForbidden, "the credentials do not allow this")
	case errors.Is(err, identity.ErrUnauthenticated):
		p = problem.New(problem.CodeUnauthenticated, "")
	}
	switch p.Code {
	case problem.CodeNotFound: // the internal name means nothing to a model
		p.Detail = "there is no such execution"
	case problem.CodeStreamExpired:
		p.Detail = "the execution is no longer kept"
	}
	if e, ok := errors.AsType[*explained](err); ok {
		p.Detail, p.Field = cmp.Or(e.detail, p.Detail), e.field
		p.Earliest, p.Tail = cmp.Or(e.earliest, p.Earliest), cmp.Or(e.tail, p.Tail)
	}
	if field, ok := errors.AsType[*execution.FieldError](err); ok {
		p.Field = field.Field
	}
	if p.Code == problem.CodeInternal {
		s.opts.Logger.Error("an MCP tool has failed", "tool", tool, "error", err)
	}
	return &toolError{p}
}

// codes is middleware that puts the code of a failed call into its _meta.
func codes(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		r, ok := result.(*mcp.CallToolResult)
		if !ok || r == nil || !r.IsError {
			return result, err
		}
		p := problem.New(problem.CodeInvalid, "")
		if e, ok := errors.AsType[*toolError](r.GetError()); ok {
			p = e.problem
		} else if r.GetError() == nil {
			return result, err // the error explains itself
		} else { // the SDK has refused the arguments
			r.Content = []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s: %v", problem.CodeInvalid, r.GetError())}}
		}
		if r.Meta == nil {
			r.Meta = mcp.Meta{}
		}
		meta := errorMeta{
			Code: p.Code, Field: p.Field, Retryable: p.Retryable, Earliest: p.Earliest,
			Tail: p.Tail, Quota: p.Quota, QuotaOf: p.QuotaOf,
		}
		if p.RetryAfter > 0 {
			meta.RetryAfter = p.RetryAfter.String()
		}
		r.Meta[metaError] = meta
		return result, err
	}
}

// errorMeta is the value of metaError.
type errorMeta struct {
	Code      problem.Code `json:"code"`
	Field     string       `json:"field,omitempty"`
	Retryable bool         `json:"retryable"`
	Earliest  string       `json:"earliest,omitempty"`
	Tail      string       `json:"tail,omitempty"`
	// Quota names the quota that is used up, and QuotaOf whose it is.
	Quota      string `json:"quota,omitempty"`
	QuotaOf    string `json:"quota_of,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}
