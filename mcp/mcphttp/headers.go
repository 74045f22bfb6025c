package mcphttp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// The headers in which version 2026-07-28 repeats parts of the body of a request. The rules are in its section "Request
// Metadata".

// The keys of _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// requestMeta is what _meta says of a request. Members that are missing or of another type are nil.
type requestMeta struct {
	version      string
	capabilities bool // there is an object
	info         bool // absent, or an object
}

func metaOf(params json.RawMessage) requestMeta {
	meta := membersOf(membersOf(params)["_meta"])
	info, given := meta[metaClientInfo]
	return requestMeta{
		version:      stringOf(meta[metaVersion]),
		capabilities: isObject(meta[metaCapabilities]),
		info:         !given || isObject(info),
	}
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func mismatch(id ID, format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, id: id, rpc: rpcError{
		Code: codeHeaderMismatch, Message: "Header mismatch: " + fmt.Sprintf(format, args...),
	}}
}

func invalidParams(id ID, message string) *refusal {
	return &refusal{status: http.StatusBadRequest, id: id, rpc: rpcError{Code: codeInvalidParams, Message: message}}
}

// checkMeta compares the metadata in a request with its headers.
func (h *Handler) checkMeta(r *http.Request, m *Message) *refusal {
	header, meta := r.Header.Get(headerVersion), metaOf(m.Params)
	switch {
	case header == "":
		return mismatch(m.ID, "the header MCP-Protocol-Version is missing")
	case meta.version == "":
		return invalidParams(m.ID, "_meta has no "+metaVersion)
	case header != meta.version:
		return mismatch(m.ID, "MCP-Protocol-Version header value %q does not match body value %q", header, meta.version)
	case !h.serves(meta.version):
		return h.unsupported(meta.version, m.ID)
	case !meta.capabilities:
		return invalidParams(m.ID, "_meta has no "+metaCapabilities)
	case !meta.info:
		return invalidParams(m.ID, metaClientInfo+" in _meta is no object")
	}
	return checkName(r, m)
}

// checkName holds Mcp-Method and Mcp-Name against the body.
func checkName(r *http.Request, m *Message) *refusal {
	switch method := r.Header.Get(headerMethod); {
	case method == "":
		return mismatch(m.ID, "the header Mcp-Method is missing")
	case method != m.Method:
		return mismatch(m.ID, "Mcp-Method header value %q does not match body value %q", method, m.Method)
	}
	field := ""
	switch m.Method {
	case "tools/call", "prompts/get":
		field = "name"
	case "resources/read":
		field = "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		field = "taskId"
	default:
		return nil
	}
	name := stringOf(membersOf(m.Params)[field]) // what is of another type does not match
	header := r.Header.Get(headerName)
	if header == "" {
		return mismatch(m.ID, "the header Mcp-Name is missing")
	}
	decoded, ok := decodeHeader(header)
	if !ok {
		return mismatch(m.ID, "the header Mcp-Name is not encoded as it should be")
	}
	if decoded != name {
		return mismatch(m.ID, "Mcp-Name header value %q does not match body value %q", decoded, name)
	}
	return nil
}

// decodeHeader decodes a header value that may be in Base64, and reports whether it is one.
func decodeHeader(value string) (string, bool) {
	for i := range len(value) {
		if value[i] != '\t' && (value[i] < ' ' || value[i] > '~') {
			return "", false
		}
	}
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if !ok || !strings.HasSuffix(inner, "?=") {
		return value, true
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
	return string(decoded), err == nil
}

// schemaProperty is the part of a schema that names the header of an argument.
type schemaProperty struct {
	Header     json.RawMessage           `json:"x-mcp-header"`
	Properties map[string]schemaProperty `json:"properties"`
}

// checkParams holds the headers Mcp-Param-* of a tool call against its arguments.
func (h *Handler) checkParams(ctx context.Context, x *Exchange) *refusal {
	m := &x.Messages[0]
	if m.Method != "tools/call" {
		return nil
	}
	params := membersOf(m.Params)
	schema, err := h.backend.InputSchema(ctx, x, stringOf(params["name"]))
	if err != nil {
		return refusalOf(err)
	}
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return nil
	}
	var root schemaProperty
	if json.Unmarshal(schema, &root) != nil {
		return nil
	}
	return checkProperties(x.Header, m.ID, &root, params["arguments"])
}

// checkProperties checks the properties of a schema against the value that is described by it.
func checkProperties(header http.Header, id ID, schema *schemaProperty, value json.RawMessage) *refusal {
	members := membersOf(value)
	for name, property := range schema.Properties {
		member := given(members[name])
		var mirrored string
		if json.Unmarshal(property.Header, &mirrored) == nil && mirrored != "" {
			if refused := checkParam(header, id, "Mcp-Param-"+mirrored, name, member); refused != nil {
				return refused
			}
		}
		if refused := checkProperties(header, id, &property, member); refused != nil {
			return refused
		}
	}
	return nil
}

func checkParam(header http.Header, id ID, field, name string, value json.RawMessage) *refusal {
	values := header.Values(field)
	switch {
	case value == nil && len(values) == 0:
		return nil
	case value == nil:
		return mismatch(id, "the header %s is there and the argument %q is not", field, name)
	case len(values) != 1:
		return mismatch(id, "the header %s is missing or there more than once", field)
	}
	decoded, ok := decodeHeader(values[0])
	if !ok {
		return mismatch(id, "the header %s is not encoded as it should be", field)
	}
	if !sameValue(decoded, value) {
		return mismatch(id, "%s header value %q does not match the argument %q", field, decoded, name)
	}
	return nil
}

// sameValue compares a header with a string, a boolean or an integer.
func sameValue(header string, value json.RawMessage) bool {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return header == v
	case bool:
		return header == strconv.FormatBool(v)
	case float64:
		n, err := strconv.ParseFloat(header, 64)
		return err == nil && n == v && v == math.Trunc(v)
	}
	return false
}
