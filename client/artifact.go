package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"reprise"
)

// OpenArtifact reads a file that is kept with an execution. Reading continues by itself after a lost connection. The
// first Read makes the first request; its error is reprise.ErrNotFound if the file does not exist. The bytes are
// not compared with Artifact.SHA256. Close frees everything; cancelling ctx does too.
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
