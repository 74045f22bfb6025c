package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
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
		s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
			Name: "execution-" + name + "-range", Title: "A part of the " + name + " of a run that has ended",
			URITemplate: resourceRoot + "{id}/" + name + "/{range}",
			Description: "The bytes of a range, such as 0-4194303, of which the last is included.",
		}, s.readResource)
	}
}

// linksTo are links to the channels of a run that has ended of which something was left out: to all that is kept, or to
// the first part of it where that is more than is read at a time.
func (s *Server) linksTo(ctx context.Context, tenant reprise.Tenant, out *executeOutput) (links []mcp.Content) {
	for _, c := range []struct {
		name    string
		channel *channel
	}{{execution.Stdout, &out.Stdout}, {execution.Stderr, &out.Stderr}} {
		if c.channel.Omitted == 0 || out.goesOn {
			continue
		}
		output, err := s.host.Output(ctx, tenant, out.ID, c.name)
		if err != nil || output.Size() == output.First() {
			continue // there is nothing to link to
		}
		uri, title := resourceRoot+url.PathEscape(out.ID)+"/"+c.name, "All of "+c.name
		size := output.Size() - output.First()
		if size > s.opts.MaxResource {
			uri += "/" + byteRange{output.First(), output.First() + s.opts.MaxResource - 1}.String()
			title = fmt.Sprintf("The first part of the %d bytes of %s; the others are read by their ranges",
				size, c.name)
			size = s.opts.MaxResource
		}
		links = append(links, &mcp.ResourceLink{URI: uri, Name: c.name, Title: title, Size: &size})
	}
	return links
}

// byteRange is a range of bytes, with the last one.
type byteRange struct{ first, last int64 }

func (r byteRange) String() string { return fmt.Sprintf("%d-%d", r.first, r.last) }

// parseRange is the inverse of byteRange.String.
func parseRange(text string) (r byteRange, ok bool) {
	first, last, ok := strings.Cut(text, "-")
	if !ok {
		return r, false
	}
	from, err := strconv.ParseUint(first, 10, 63)
	to, err2 := strconv.ParseUint(last, 10, 63)
	r = byteRange{int64(from), int64(to)}
	return r, err == nil && err2 == nil && r.first <= r.last
}

// readResource reads an ended execution. An execution that does not exist, has not ended, or belongs to another tenant
// is not found.
func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	escaped, name, isChannel := strings.Cut(strings.TrimPrefix(uri, resourceRoot), "/")
	id, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	c, err := s.enterFor(ctx, req, readResources, id)
	if errors.Is(err, reprise.ErrNotFound) {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, s.failed(readResources, err)
	}
	tenant := c.tenant
	x, err := s.host.Show(ctx, tenant, id)
	switch {
	case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired), errors.Is(err, reprise.ErrInvalid):
		return nil, mcp.ResourceNotFoundError(uri)
	case err != nil:
		return nil, s.failed(readResources, err)
	case x.Status != execution.StatusEnded:
		return nil, invalidParams("execution %s has not ended; get_execution_output reads what there is", id)
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
	data, err := s.readChannel(ctx, tenant, &x, name)
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

// readChannel reads the resource of a path: a channel, or a range of it.
func (s *Server) readChannel(ctx context.Context, tenant reprise.Tenant, x *execution.Execution,
	path string,
) ([]byte, error) {
	name, part, inPart := strings.Cut(path, "/")
	output, err := s.host.Output(ctx, tenant, x.ID, name)
	if err != nil {
		return nil, s.failed(readResources, err)
	}
	kept := byteRange{output.First(), output.Size() - 1}
	asked := kept
	if inPart {
		var ok bool
		if asked, ok = parseRange(part); !ok || asked.first < kept.first || asked.first > kept.last {
			return nil, invalidParams("%s has the bytes %v; a range is written like that", name, kept)
		}
		asked.last = min(asked.last, kept.last)
	}
	if size := asked.last - asked.first + 1; size > s.opts.MaxResource {
		return nil, invalidParams("%s has %d bytes, at most %d are read at a time: read it by ranges, such as %s%s/%s/%v",
			name, size, s.opts.MaxResource, resourceRoot, url.PathEscape(x.ID), name,
			byteRange{asked.first, asked.first + s.opts.MaxResource - 1})
	}
	var buf bytes.Buffer
	if _, err := output.Copy(ctx, &buf, asked.first, asked.last-asked.first+1, false); err != nil {
		return nil, s.failed(readResources, err)
	}
	return buf.Bytes(), nil
}

func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}
