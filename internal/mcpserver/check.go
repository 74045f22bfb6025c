package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/execution"
)

// checkArguments is middleware that refuses arguments in the terms of the tool, before the SDK does so in terms of JSON
// Schema. It takes what models send for what they mean: null for an argument that is not given, unless the tool takes
// null, and JSON in a string, such as "30", where the tool takes no string.
func (s *Server) checkArguments(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.(*mcp.CallToolRequest); ok && call.Params != nil {
			if schema := s.schemas[call.Params.Name]; schema != nil {
				arguments, err := meant(schema, call.Params.Arguments)
				if err != nil {
					result := &mcp.CallToolResult{}
					result.SetError(s.failed(call.Params.Name, err))
					return result, nil
				}
				call.Params.Arguments = arguments
			}
		}
		return next(ctx, method, req)
	}
}

// meant returns the arguments of a tool as they are meant, or an error that names a parameter. Values that are no
// object are left to the SDK.
func meant(schema *jsonschema.Schema, arguments json.RawMessage) (json.RawMessage, error) {
	given := membersOf(arguments)
	if given == nil {
		return arguments, nil
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		property := schema.Properties[name]
		if property == nil {
			known := strings.Join(slices.Sorted(maps.Keys(schema.Properties)), ", ")
			return nil, &execution.FieldError{Field: name, Reason: "there is no such parameter; there are " + known}
		}
		value, ok := valueOf(property, given[name])
		switch {
		case !ok:
			return nil, &execution.FieldError{
				Field:  name,
				Reason: fmt.Sprintf("%s is taken, and this is %s", aOf(typesOf(property)...), aOf(typeOf(given[name]))),
			}
		case value == nil && slices.Contains(property.Types, "null"):
		case value == nil:
			delete(given, name)
		default:
			given[name] = value
		}
	}
	for _, name := range schema.Required {
		if _, ok := given[name]; !ok {
			return nil, &execution.FieldError{Field: name, Reason: "it is required"}
		}
	}
	return json.Marshal(given)
}

// membersOf returns the members of an object, or nil for anything else.
func membersOf(object json.RawMessage) (members map[string]json.RawMessage) {
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	return members
}

// valueOf returns a value that the schema takes, nil for null, or false.
func valueOf(schema *jsonschema.Schema, value json.RawMessage) (json.RawMessage, bool) {
	is := typeOf(value)
	if is == "null" {
		return nil, true
	}
	if takes(schema, value) {
		return value, true
	}
	var text string
	if is != "string" || json.Unmarshal(value, &text) != nil || !json.Valid([]byte(text)) {
		return nil, false
	}
	inner := json.RawMessage(strings.TrimSpace(text))
	return inner, takes(schema, inner)
}

// takes reports whether the schema takes a value of this type.
func takes(schema *jsonschema.Schema, value json.RawMessage) bool {
	is := typeOf(value)
	return slices.ContainsFunc(typesOf(schema), func(taken string) bool {
		return taken == is || taken == "number" && is == "integer"
	})
}

func typesOf(schema *jsonschema.Schema) []string {
	if schema.Type != "" {
		return []string{schema.Type}
	}
	return schema.Types
}

// aOf is types with their articles.
func aOf(types ...string) string {
	said := make([]string, len(types))
	for i, t := range types {
		said[i] = "a " + t
		if strings.ContainsRune("aio", rune(t[0])) {
			said[i] = "an " + t
		}
	}
	return strings.Join(said, " or ")
}

// typeOf is the type of a value in the terms of JSON Schema.
func typeOf(value json.RawMessage) string {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return "invalid"
	}
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
