package mcptask

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
)

// identity is whose a request is.
type identity struct {
	tenant    reprise.Tenant
	principal string
}

func (t *Tasks) identify(ctx context.Context, req mcp.Request) (identity, error) {
	tenant, principal, err := t.opts.Identify(ctx, req)
	return identity{tenant, principal}, err
}

// receive is the middleware of what clients send.
func (t *Tasks) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case methodCall:
			if r, ok := req.(*mcp.CallToolRequest); ok {
				return t.call(ctx, next, r)
			}
		case methodDiscover:
			result, err := next(ctx, method, req)
			declare(result)
			return result, err
		case methodListen:
			if r, ok := req.(*mcp.SubscriptionsListenRequest); ok {
				return t.listen(ctx, next, r)
			}
		case methodGet, methodUpdate, methodCancel:
			if r, ok := req.(*mcp.ServerRequest[*taskParams]); ok {
				return t.serve(ctx, method, r)
			}
		}
		return next(ctx, method, req)
	}
}

// declare adds the extension to the answer to server/discover.
func declare(result mcp.Result) {
	r, ok := result.(*mcp.DiscoverResult)
	if !ok || r == nil {
		return
	}
	capabilities := mcp.ServerCapabilities{}
	if r.Capabilities != nil {
		capabilities = *r.Capabilities
	}
	capabilities.Extensions = maps.Clone(capabilities.Extensions)
	capabilities.AddExtension(Extension, nil)
	r.Capabilities = &capabilities
}

// unreached stands in for the handlers of our methods, which receive answers.
func unreached(context.Context, *mcp.ServerSession, *taskParams) (*taskResult, error) {
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the server does not support tasks"}
}

// isModern reports whether a request is of a version that has the extension.
func isModern(params mcp.Params) bool {
	version, _ := params.GetMeta()[mcp.MetaKeyProtocolVersion].(string)
	return version >= modern
}

// declares reports whether the client has declared the extension with this request.
func declares[P mcp.Params](req *mcp.ServerRequest[P]) bool {
	if !isModern(req.Params) {
		return false
	}
	c := req.ClientCapabilities()
	if c == nil {
		return false
	}
	_, ok := c.Extensions[Extension]
	return ok
}

// serve answers our methods.
func (t *Tasks) serve(ctx context.Context, method string, req *mcp.ServerRequest[*taskParams]) (mcp.Result, error) {
	switch {
	case req.Params == nil || !isModern(req.Params):
		return nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeMethodNotFound,
			Message: fmt.Sprintf("%q is not supported on this version of the protocol", method),
		}
	case !declares(req):
		return nil, missing()
	case Exchange(ctx) == nil && !isNamed(req): // mcphttp has seen to that
		return nil, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the header Mcp-Name is not the taskId"}
	}
	who, err := t.identify(ctx, req)
	if err != nil {
		return nil, err
	}
	task, err := t.find(ctx, who.tenant, who.principal, req.Params.TaskID)
	if err != nil {
		return nil, refused(err)
	}
	switch method {
	case methodUpdate:
		err = update(ctx, task, req.Params.InputResponses)
	case methodCancel:
		err = cancel(ctx, task)
	default:
		return &taskResult{ResultType: "complete", wireTask: task.wire()}, nil
	}
	if err != nil && !isOver(err) {
		return nil, err
	}
	return &ack{ResultType: "complete"}, nil
}

// isNamed reports whether a request that came over HTTP, through the handler of the SDK, names its task in the header
// too.
func isNamed(req *mcp.ServerRequest[*taskParams]) bool {
	if req.Extra == nil || req.Extra.Header == nil {
		return true
	}
	name := req.Extra.Header.Get("Mcp-Name")
	if inner, ok := strings.CutPrefix(name, "=?base64?"); ok {
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
		return err == nil && string(decoded) == req.Params.TaskID
	}
	return name == req.Params.TaskID
}

// update keeps answers to what the task asks. Others are passed over.
func update(ctx context.Context, task found, responses map[string]json.RawMessage) error {
	if responses == nil {
		return invalid("inputResponses is missing")
	}
	wanted := map[string]json.RawMessage{}
	if task.end == nil {
		for key := range task.questions() {
			response, ok := responses[key]
			if !ok {
				continue
			}
			if _, err := answerOf(response); err != nil {
				return invalid(fmt.Sprintf("inputResponses[%q]: %v", key, err))
			}
			wanted[key] = response
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	data, err := json.Marshal(inputEvent{wanted})
	if err != nil {
		return err
	}
	_, err = task.stream.Append(ctx, reprise.Event{Type: typeInput, Data: data, Format: reprise.FormatJSON})
	if errors.Is(err, reprise.ErrInvalid) {
		return invalid("inputResponses is too long")
	}
	return err
}

// cancel keeps that the client wants the task to be over.
func cancel(ctx context.Context, task found) error {
	if task.end != nil || task.cancel {
		return nil
	}
	_, err := task.stream.Append(ctx, reprise.Event{Type: typeCancel})
	return err
}
