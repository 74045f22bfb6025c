package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"reprise"
)

// do makes one request and returns the body of its answer, which the caller closes.
func (h *Helper) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (io.ReadCloser, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p, err := h.process(ctx)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://reprise-archive"+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", reprise.ErrInvalid, err)
	}
	response, err := p.client.Do(r)
	if err != nil {
		return nil, h.lost(ctx, err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	var problem Problem
	if err := json.NewDecoder(response.Body).Decode(&problem); err != nil {
		return nil, h.lost(ctx, fmt.Errorf("status %s: %w", response.Status, err))
	}
	if ctx.Err() != nil && problem.Kind == "unavailable" {
		return nil, context.Cause(ctx)
	}
	return nil, problem.Err()
}

// lost is the error of a request without an answer.
func (h *Helper) lost(ctx context.Context, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case h.closed:
		return reprise.ErrClosed
	}
	return fmt.Errorf("%w: the archive helper: %v", reprise.ErrUnavailable, err)
}

// errStopped ends a writer whose request is over.
var errStopped = errors.New("the request has ended")

// upload sends what write writes as the body of a request. An error of write is returned as it is.
func (h *Helper) upload(ctx context.Context, method, path string, query url.Values, write func(io.Writer) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err)
		written <- err
	}()
	answer, err := h.do(ctx, method, path, query, requestBody{r})
	if err == nil {
		err = answer.Close()
	}
	_ = r.CloseWithError(errStopped)
	if writeErr := <-written; writeErr != nil && !errors.Is(writeErr, errStopped) {
		return writeErr
	}
	return err
}

// requestBody is a body whose writer sees errStopped once the transport has closed it.
type requestBody struct{ *io.PipeReader }

func (b requestBody) Close() error { return b.CloseWithError(errStopped) }

// nameQuery is a query of pairs of a name and a value.
func nameQuery(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], strings.ToValidUTF8(pairs[i+1], ""))
	}
	return query
}
