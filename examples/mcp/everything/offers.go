package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// watched is a resource that changes every three seconds.
const watched = "test://watched-resource"

func addResources(server *mcp.Server) {
	addResource(server, "static-text", "test://static-text",
		&mcp.ResourceContents{MIMEType: "text/plain", Text: "A resource of text."})
	addResource(server, "static-binary", "test://static-binary",
		&mcp.ResourceContents{MIMEType: "image/png", Blob: picture()})
	addResource(server, "watched-resource", watched,
		&mcp.ResourceContents{MIMEType: "text/plain", Text: "A resource that changes."})
	server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "template", Description: "Any number of resources.", MIMEType: "application/json",
		URITemplate: "test://template/{id}/data",
	}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
		return read(&mcp.ResourceContents{
			URI: req.Params.URI, MIMEType: "application/json",
			Text: fmt.Sprintf(`{"id":%q}`, id),
		}), nil
	})
}

func addResource(server *mcp.Server, name, uri string, contents *mcp.ResourceContents) {
	contents.URI = uri
	server.AddResource(&mcp.Resource{
		Name: name, Description: "A resource for tests.", MIMEType: contents.MIMEType,
		URI: uri,
	},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return read(contents), nil
		})
}

func read(contents *mcp.ResourceContents) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}
}

// addPrompt adds a prompt of one text.
func addPrompt(server *mcp.Server, prompt *mcp.Prompt, message string) {
	server.AddPrompt(prompt, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return messages(prompt, &mcp.TextContent{Text: message}), nil
	})
}

func messages(prompt *mcp.Prompt, parts ...mcp.Content) *mcp.GetPromptResult {
	result := &mcp.GetPromptResult{Description: prompt.Description}
	for _, part := range parts {
		result.Messages = append(result.Messages, &mcp.PromptMessage{Role: "user", Content: part})
	}
	return result
}

func addPrompts(server *mcp.Server) {
	addPrompt(server, &mcp.Prompt{Name: "test_simple_prompt", Description: "A prompt without arguments."},
		"This is a simple prompt for testing.")

	arguments := &mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "A prompt with two arguments.",
		Arguments: []*mcp.PromptArgument{
			{Name: "arg1", Description: "The first.", Required: true},
			{Name: "arg2", Description: "The second.", Required: true},
		},
	}
	server.AddPrompt(arguments, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		given := req.Params.Arguments
		return messages(arguments,
			&mcp.TextContent{Text: fmt.Sprintf("arg1='%s', arg2='%s'", given["arg1"], given["arg2"])}), nil
	})

	embedded := &mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A prompt with a resource.",
		Arguments: []*mcp.PromptArgument{
			{Name: "resourceUri", Description: "Which resource.", Required: true},
		},
	}
	server.AddPrompt(embedded, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		resource := &mcp.ResourceContents{
			URI: req.Params.Arguments["resourceUri"], MIMEType: "text/plain",
			Text: "An embedded resource.",
		}
		return messages(embedded, &mcp.EmbeddedResource{Resource: resource},
			&mcp.TextContent{Text: "Please look at the resource above."}), nil
	})

	shown := &mcp.Prompt{Name: "test_prompt_with_image", Description: "A prompt with an image."}
	server.AddPrompt(shown, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return messages(shown, &mcp.ImageContent{Data: picture(), MIMEType: "image/png"},
			&mcp.TextContent{Text: "Please look at the image above."}), nil
	})

	asking := &mcp.Prompt{
		Name:        "test_input_required_result_prompt",
		Description: "A prompt that asks first, as it is done from version 2026-07-28 on.",
	}
	server.AddPrompt(asking, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		answer, _ := req.Params.InputResponses["user_context"].(*mcp.ElicitResult)
		if answer == nil || answer.Action != "accept" {
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": form("What is it about?",
				"context", "string")}}, nil
		}
		return messages(asking, &mcp.TextContent{Text: fmt.Sprintf("It is about %v.", answer.Content["context"])}), nil
	})
}
