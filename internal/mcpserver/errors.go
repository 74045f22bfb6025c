package mcpserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/problem"
)

// metaError is where the _meta of a result has the code of an error.
const metaError = "reprise/error"

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
	case problem.CodeNotFound: // what it is called inside says nothing to a model
		p.Detail = "there is no such execution"
	case problem.CodeStreamExpired:
		p.Detail = "the execution is no longer kept"
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
			return result, err // it says itself what is wrong
		} else { // the SDK has refused the arguments
			r.Content = []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s: %v", problem.CodeInvalid, r.GetError())}}
		}
		if r.Meta == nil {
			r.Meta = mcp.Meta{}
		}
		r.Meta[metaError] = errorMeta{
			Code: p.Code, Field: p.Field, Retryable: p.Retryable, Earliest: p.Earliest,
			Tail: p.Tail,
		}
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
}
