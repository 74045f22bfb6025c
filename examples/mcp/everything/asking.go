//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and the suite asks for them.

package main

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// object is the schema of an object with the given properties, as JSON.
func object(properties string) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":` + properties + `}`)
}

// addAsking adds tools that ask the client while they run, as it is done up to version 2025-11-25.
func addAsking(server *mcp.Server) {
	addWith(server, "test_sampling", "Asks the client's model.", string(object(`{"prompt":{"type":"string"}}`)),
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Prompt string }
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			answer, err := req.Session.CreateMessage(ctx, sampling(in.Prompt))
			if err != nil {
				return nil, err
			}
			said, _ := answer.Content.(*mcp.TextContent)
			if said == nil {
				return text("The model has said something that is no text."), nil
			}
			return text("The model has said: %s", said.Text), nil
		})
	addWith(server, "test_elicitation", "Asks the user.", string(object(`{"message":{"type":"string"}}`)),
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Message string }
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			return elicit(ctx, req, in.Message, object(`{"username":{"type":"string"},"email":{"type":"string"}}`))
		})
	add(server, "test_elicitation_sep1034_defaults", "Asks the user, with a default for each answer.",
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return elicit(ctx, req, "Each answer has a default.", object(`{
				"name": {"type": "string", "default": "John Doe"},
				"age": {"type": "integer", "default": 30},
				"score": {"type": "number", "default": 95.5},
				"status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
				"verified": {"type": "boolean", "default": true}}`))
		})
	add(server, "test_elicitation_sep1330_enums", "Asks the user to choose, in each way that there is.",
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return elicit(ctx, req, "Please choose.", object(`{
				"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
				"titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"},
					{"const": "value2", "title": "Second Option"}, {"const": "value3", "title": "Third Option"}]},
				"legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
				"untitledMulti": {"type": "array", "minItems": 1, "maxItems": 3,
					"items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
				"titledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": [{"const": "value1", "title": "First Choice"},
					{"const": "value2", "title": "Second Choice"}, {"const": "value3", "title": "Third Choice"}]}}}`))
		})
}

func sampling(prompt string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}},
		MaxTokens: 100,
	}
}

// elicit asks the user and answers with what came back.
func elicit(ctx context.Context, req *mcp.CallToolRequest, message string,
	schema json.RawMessage,
) (*mcp.CallToolResult, error) {
	answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: schema})
	if err != nil {
		return nil, err
	}
	given, err := json.Marshal(answer.Content)
	if err != nil {
		return nil, err
	}
	return text("action=%s, content=%s", answer.Action, given), nil
}
