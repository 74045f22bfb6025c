//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and the suite asks for them.

package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stateKey authenticates what is given to the client between two rounds. A server with replicas, or one that is
// restarted while its clients answer, would have to keep it.
var stateKey = []byte(rand.Text())

// seal makes a state that open accepts.
func seal(state string) string {
	h := hmac.New(sha256.New, stateKey)
	h.Write([]byte(state))
	return hex.EncodeToString(h.Sum(nil)) + "." + state
}

func unseal(sealed string) (state string, err error) {
	_, state, _ = strings.Cut(sealed, ".")
	if !hmac.Equal([]byte(sealed), []byte(seal(state))) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the requestState is none of this server's"}
	}
	return state, nil
}

// form asks the user for one thing, which must be given.
func form(message, field, kind string) *mcp.ElicitParams {
	schema := json.RawMessage(
		`{"type":"object","properties":{"` + field + `":{"type":"` + kind + `"}},"required":["` + field + `"]}`,
	)
	return &mcp.ElicitParams{Message: message, RequestedSchema: schema}
}

// given is what the user has answered to a form, nil if there is no answer or the user has refused.
func given(req *mcp.CallToolRequest, key, field string) any {
	answer, _ := req.Params.InputResponses[key].(*mcp.ElicitResult)
	if answer == nil || answer.Action != "accept" {
		return nil
	}
	return answer.Content[field]
}

// said is what the client's model has answered.
func said(req *mcp.CallToolRequest, key string) (string, bool) {
	answer, _ := req.Params.InputResponses[key].(*mcp.CreateMessageWithToolsResult)
	if answer == nil {
		return "", false
	}
	for _, part := range answer.Content {
		if part, ok := part.(*mcp.TextContent); ok {
			return part.Text, true
		}
	}
	return "", true
}

// roots are those of the client.
func roots(req *mcp.CallToolRequest, key string) ([]*mcp.Root, bool) {
	answer, _ := req.Params.InputResponses[key].(*mcp.ListRootsResult)
	if answer == nil {
		return nil, false
	}
	return answer.Roots, true
}

func want(requests mcp.InputRequestMap, state string) *mcp.CallToolResult {
	if state != "" {
		state = seal(state)
	}
	return &mcp.CallToolResult{InputRequests: requests, RequestState: state}
}

// addRounds adds tools that ask with their result, as it is done from version 2026-07-28 on: the client calls again,
// with the answers.
func addRounds(server *mcp.Server) {
	const prefix = "test_input_required_result_"
	add(server, prefix+"elicitation", "Asks for a name.", askName)
	add(server, prefix+"sampling", "Asks the client's model.", askModel)
	add(server, prefix+"list_roots", "Asks for the client's roots.", askRoots)
	add(server, prefix+"request_state", "Asks, with a state that comes back.", askWithState)
	add(server, prefix+"tampered_state", "Asks, and refuses a state that is not its own.", askWithState)
	add(server, prefix+"multiple_inputs", "Asks for three things at a time.", askThree)
	add(server, prefix+"multi_round", "Asks twice.", askTwice)
	add(server, prefix+"capabilities", "Asks for what the client can give.", askAble)
}

func askName(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if name, _ := given(req, "user_name", "name").(string); name != "" {
		return text("Hello, %s!", name), nil
	}
	return want(mcp.InputRequestMap{"user_name": form("What is your name?", "name", "string")}, ""), nil
}

func askModel(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if answer, ok := said(req, "capital"); ok {
		return text("The model has said: %s", answer), nil
	}
	return want(mcp.InputRequestMap{"capital": sampling("What is the capital of France?")}, ""), nil
}

func askRoots(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if list, ok := roots(req, "roots"); ok {
		return text("The client has %d roots.", len(list)), nil
	}
	return want(mcp.InputRequestMap{"roots": &mcp.ListRootsParams{}}, ""), nil
}

func askWithState(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState != "" {
		if _, err := unseal(req.Params.RequestState); err != nil {
			return nil, err
		}
		if given(req, "confirm", "ok") != nil {
			return text("state-ok"), nil
		}
	}
	return want(mcp.InputRequestMap{"confirm": form("Please confirm.", "ok", "boolean")}, "confirming"), nil
}

func askThree(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name, _ := given(req, "user_name", "name").(string)
	greeting, greeted := said(req, "greeting")
	list, listed := roots(req, "roots")
	if name != "" && greeted && listed {
		return text("%s %s has %d roots.", greeting, name, len(list)), nil
	}
	return want(mcp.InputRequestMap{
		"user_name": form("What is your name?", "name", "string"),
		"greeting":  sampling("Greet somebody."),
		"roots":     &mcp.ListRootsParams{},
	}, "three"), nil
}

// askTwice keeps what it was told in the first round in the state: nothing is in memory.
func askTwice(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState == "" {
		return want(mcp.InputRequestMap{"step1": form("What is your name?", "name", "string")}, "1"), nil
	}
	state, err := unseal(req.Params.RequestState)
	if err != nil {
		return nil, err
	}
	if name, ok := strings.CutPrefix(state, "2 "); ok {
		return text("%s likes %v.", name, given(req, "step2", "color")), nil
	}
	name, _ := given(req, "step1", "name").(string)
	return want(mcp.InputRequestMap{"step2": form("What is your favourite colour?", "color", "string")}, "2 "+name), nil
}

func askAble(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return text("Thank you."), nil
	}
	requests := mcp.InputRequestMap{}
	able := req.ClientCapabilities()
	if able != nil && able.Elicitation != nil {
		requests["user_name"] = form("What is your name?", "name", "string")
	}
	if able != nil && able.Sampling != nil {
		requests["greeting"] = sampling("Greet somebody.")
	}
	if able != nil && able.RootsV2 != nil {
		requests["roots"] = &mcp.ListRootsParams{}
	}
	if len(requests) == 0 {
		return text("The client can be asked for nothing."), nil
	}
	return want(requests, ""), nil
}
