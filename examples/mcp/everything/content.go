//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and the suite asks for them.

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/png"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type handler func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)

// add adds a tool that takes any arguments.
func add(server *mcp.Server, name, description string, call handler) {
	addWith(server, name, description, `{"type":"object"}`, call)
}

func addWith(server *mcp.Server, name, description, schema string, call handler) {
	server.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)},
		mcp.ToolHandler(call))
}

func text(format string, args ...any) *mcp.CallToolResult {
	return content(&mcp.TextContent{Text: fmt.Sprintf(format, args...)})
}

func content(parts ...mcp.Content) *mcp.CallToolResult { return &mcp.CallToolResult{Content: parts} }

// always is a tool that has one answer.
func always(result *mcp.CallToolResult) handler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return result, nil }
}

// picture is a PNG of one transparent pixel.
func picture() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// silence is a WAV file without samples: 8,000 of 16 bits a second, one channel.
func silence() []byte {
	b := binary.LittleEndian.AppendUint32([]byte("RIFF"), 36)
	b = binary.LittleEndian.AppendUint32(append(b, "WAVEfmt "...), 16)
	for _, n := range []uint16{1, 1} {
		b = binary.LittleEndian.AppendUint16(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, 8000)
	b = binary.LittleEndian.AppendUint32(b, 16000)
	for _, n := range []uint16{2, 16} {
		b = binary.LittleEndian.AppendUint16(b, n)
	}
	return binary.LittleEndian.AppendUint32(append(b, "data"...), 0)
}

// addContent adds tools that answer with each kind of content, and with errors.
func addContent(server *mcp.Server) {
	shown := &mcp.ImageContent{Data: picture(), MIMEType: "image/png"}
	embedded := &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
		URI: "test://embedded", MIMEType: "text/plain",
		Text: "An embedded resource.",
	}}
	add(server, "test_simple_text", "Answers with text.", always(text("This is a simple text response for testing.")))
	add(server, "test_image_content", "Answers with an image.", always(content(shown)))
	add(server, "test_audio_content", "Answers with a sound.",
		always(content(&mcp.AudioContent{Data: silence(), MIMEType: "audio/wav"})))
	add(server, "test_embedded_resource", "Answers with a resource.", always(content(embedded)))
	add(server, "test_multiple_content_types", "Answers with text, an image and a resource.",
		always(content(&mcp.TextContent{Text: "Text, an image and a resource:"}, shown, embedded)))
	failed := text("This tool always fails.")
	failed.IsError = true
	add(server, "test_error_handling", "Answers with an error.", always(failed))
	addWith(server, "json_schema_2020_12_tool", "Takes what a schema with everything of JSON Schema 2020-12 allows.",
		schema2020,
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("called with %s", req.Params.Arguments), nil
		})
	addWith(server, "test_x_mcp_header", "Takes an argument that is a header too.", `{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`,
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("called with %s", req.Params.Arguments), nil
		})
	add(server, "test_missing_capability", "Needs a client that can sample.",
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if able := req.ClientCapabilities(); able != nil && able.Sampling != nil {
				return text("The client can sample."), nil
			}
			return nil, &jsonrpc.Error{
				Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client cannot sample",
				Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`),
			}
		})
}

// schema2020 uses what older drafts do not know; tools/list must show it unchanged.
const schema2020 = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`
