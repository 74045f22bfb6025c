package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
)

// resourceRoot begins the URIs of executions.
const resourceRoot = "reprise://executions/"

func (s *Server) addResources() {
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "execution", Title: "A run that has ended", URITemplate: resourceRoot + "{id}",
		MIMEType:    "application/json",
		Description: "How a run has ended, as get_execution_status tells it.",
	}, s.readResource)
	for _, name := range []string{execution.Stdout, execution.Stderr} {
		s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
			Name: "execution-" + name, Title: "The " + name + " of a run that has ended",
			URITemplate: resourceRoot + "{id}/" + name,
			Description: "All that a run has written to " + name + " and is kept: text, or a blob where it is no text.",
		}, s.readResource)
	}
}

// linkTo is a link to a channel of a run.
func linkTo(id, name string, size int64) *mcp.ResourceLink {
	return &mcp.ResourceLink{
		URI: resourceRoot + url.PathEscape(id) + "/" + name, Name: name, Title: "All of " + name,
		Size: &size,
	}
}

// readResource reads what has ended. What does not exist, what has not ended, and what is another tenant's is not
// found.
func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	tenant, err := s.enter(ctx, req, identity.ScopeRead)
	if err != nil {
		return nil, s.failed("resources/read", err)
	}
	id, name, isChannel := strings.Cut(strings.TrimPrefix(uri, resourceRoot), "/")
	if id, err = url.PathUnescape(id); err != nil {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	x, err := s.host.Show(ctx, tenant, id)
	switch {
	case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired), errors.Is(err, reprise.ErrInvalid):
		return nil, mcp.ResourceNotFoundError(uri)
	case err != nil:
		return nil, s.failed("resources/read", err)
	case x.Status != execution.StatusEnded:
		return nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidParams,
			Message: "execution " + id + " has not ended; get_execution_output reads what there is",
		}
	}
	contents := &mcp.ResourceContents{URI: uri, MIMEType: "application/json"}
	if !isChannel {
		text, err := json.Marshal(statusOf(&x))
		if err != nil {
			return nil, err
		}
		contents.Text = string(text)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
	}
	data, err := s.readChannel(ctx, tenant, id, name)
	if err != nil {
		return nil, err
	}
	if contents.MIMEType = "text/plain; charset=utf-8"; isText(data) {
		contents.Text = string(data)
	} else {
		contents.MIMEType, contents.Blob = "application/octet-stream", data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

func (s *Server) readChannel(ctx context.Context, tenant reprise.Tenant, id, name string) ([]byte, error) {
	output, err := s.host.Output(ctx, tenant, id, name)
	if err != nil {
		return nil, s.failed("resources/read", err)
	}
	kept := output.Size() - output.First()
	if kept > s.opts.MaxResource {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(
			"%s has %d bytes, at most %d are read at a time; get_execution_output reads them in pieces", name, kept, s.opts.MaxResource)}
	}
	var buf bytes.Buffer
	if _, err := output.Copy(ctx, &buf, output.First(), kept, false); err != nil {
		return nil, s.failed("resources/read", err)
	}
	return buf.Bytes(), nil
}
