package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
)

// The adversarial suite of the API walks openapi.yaml; this one walks the tools that the server lists, so that a new
// one is tried without a change here: every argument that takes text names what a victim has, and then what nobody has.

const (
	victimID      = "victim-0000" // of an execution, its session and its labels
	nobodyID      = "vacant-0000"
	victimContent = "content-of-the-victim"
)

// plainArguments are those with which tools do what they are for, beside the one that is varied.
func plainArguments(tool, ownSession string) args {
	if strings.HasPrefix(tool, "execute_code") {
		return args{"command": "true", "session": ownSession}
	}
	return args{"execution_id": "none"}
}

// textArguments are the arguments of a tool that take text of the caller's choice.
func textArguments(t *testing.T, tool *mcp.Tool) []string {
	t.Helper()
	text, err := json.Marshal(tool.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Type any   `json:"type"`
			Enum []any `json:"enum"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if p := schema.Properties[name]; p.Type == "string" && p.Enum == nil {
			names = append(names, name)
		}
	}
	return names
}

// TestAdversariesLearnNothingFromTools: nothing of a victim's is in any answer to a principal of another tenant or of
// another prefix, and what is the victim's is answered for as what does not exist.
func TestAdversariesLearnNothingFromTools(t *testing.T) {
	for name, a := range map[string]struct{ user, session, prefix string }{
		"another tenant": {user: "stranger"},
		"another prefix": {session: "own-1", prefix: ":own-"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			w := newFixture(t, granted("read"+a.prefix, "run"+a.prefix, "control"+a.prefix))
			request := execution.Request{
				ID: victimID, Session: victimID, Command: "echo " + victimContent + "; cat", StdinOpen: true,
				Labels: map[string]string{victimID: victimContent},
			}
			if _, _, err := w.host.Start(t.Context(), reprise.DefaultTenant, request); err != nil {
				t.Fatal(err)
			}
			c := w.caller("2025-11-25", a.user)
			tools, err := c.session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) < 7 {
				t.Fatalf("%d tools, %v", len(tools.Tools), err)
			}
			tried := 0
			for _, tool := range tools.Tools {
				for _, argument := range textArguments(t, tool) {
					tried++
					c.sameForNobody(tool.Name, argument, a.session, a.prefix != "")
				}
			}
			if tried < 20 {
				t.Errorf("tried only %d arguments", tried)
			}
			x, err := w.host.Show(t.Context(), reprise.DefaultTenant, victimID)
			if err != nil || x.Status != execution.StatusRunning {
				t.Errorf("the victim's execution: %v, %v", x.Status, err)
			}
		})
	}
}

// ownIDs are the ids of what the caller itself has started, which the server has made, and how far that is.
var ownIDs = regexp.MustCompile(`\b[a-z2-7]{26}\b( \([a-z]+\))?`)

// sameForNobody compares the answers of a tool about what the victim has with those about what nobody has.
func (c *caller) sameForNobody(tool, argument, ownSession string, sameTenant bool) {
	c.t.Helper()
	answer := func(value string) (text string, isError bool) {
		arguments := plainArguments(tool, ownSession)
		arguments[argument] = value
		if tool == "list_executions" {
			delete(arguments, "execution_id")
		}
		text, result := c.try(c.t.Context(), tool, arguments, nil)
		structured, err := json.Marshal(result.StructuredContent)
		if err != nil {
			c.t.Fatal(err)
		}
		if said := text + string(structured); strings.Contains(said, victimContent) {
			c.t.Errorf("%s with %s: the answer has the victim's: %s", tool, argument, said)
		}
		return text, result.IsError
	}
	got, failed := answer(victimID)
	want, wantFailed := answer(nobodyID)
	if sameTenant && (argument == "id" || argument == "execution_id" && strings.HasPrefix(tool, "execute_code")) {
		return // ids are one namespace within a tenant
	}
	got, want = ownIDs.ReplaceAllString(got, "own"), ownIDs.ReplaceAllString(want, "own")
	if failed != wantFailed || failed && got != strings.ReplaceAll(want, nobodyID, victimID) {
		c.t.Errorf("%s with %s: %q, and of what does not exist %q", tool, argument, got, want)
	}
}

// TestSessionsAndTasksOfOthersAreNotThere: a session of the protocol, its stream and its tasks are those of one
// principal. With the id of another's, each method answers as with one that nobody has.
func TestSessionsAndTasksOfOthersAreNotThere(t *testing.T) {
	w := newFixture(t, granted("read", "run", "control"))
	owner := w.session("2025-11-25", "owner", nil)
	send := func(user, session, method, body, last string) (int, string) {
		req, err := http.NewRequestWithContext(context.Background(), method, w.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "X-User": user,
			"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25", "Last-Event-ID": last,
		} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK && method == http.MethodGet {
			return res.StatusCode, "" // it goes on
		}
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	nobody := strings.Repeat("A", len(owner.ID()))
	for name, r := range map[string][3]string{
		"a call":       {http.MethodPost, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_executions"}}`},
		"a list":       {http.MethodPost, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`},
		"a task":       {http.MethodPost, `{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"x"}}`},
		"a notice":     {http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
		"its stream":   {http.MethodGet},
		"its position": {http.MethodGet, "", "1.0123456789ABCDEF.0123456789ABC"},
		"its end":      {http.MethodDelete},
	} {
		gotStatus, got := send("stranger", owner.ID(), r[0], r[1], r[2])
		wantStatus, want := send("stranger", nobody, r[0], r[1], r[2])
		got = strings.ReplaceAll(got, owner.ID(), nobody)
		if gotStatus != wantStatus || got != want || gotStatus == http.StatusOK {
			t.Errorf("%s: %d %s, and for a session that nobody has %d %s", name, gotStatus, got, wantStatus, want)
		}
	}
	if _, err := owner.ListTools(t.Context(), nil); err != nil {
		t.Errorf("the session of its owner: %v", err)
	}
}
