package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"reprise"
)

// Artifact is a file that is kept with an execution.
type Artifact struct {
	// Path is relative to the working directory of the execution.
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// OpenArtifact reads a file that is kept with an execution. Reading goes on by itself after a lost connection. The
// first request is made by the first Read; the error is reprise.ErrNotFound where there is no such file. The bytes are
// not held against Artifact.SHA256. Close frees everything; cancelling ctx does too.
func (c *Client) OpenArtifact(ctx context.Context, id, path string) io.ReadCloser {
	op := "read artifact " + path + " of execution " + id
	err := checkName(op, id)
	if err == nil && path == "" {
		err = fmt.Errorf("%s: %w: a path is needed", op, reprise.ErrInvalid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	return &outputReader{
		c: c, ctx: ctx, cancel: cancel, id: id, err: err, end: -1,
		request: request{op: op, method: http.MethodGet, path: executionPath(id, "/artifacts/"+url.PathEscape(path))},
	}
}
