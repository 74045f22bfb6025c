package mcpserver_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/mcpserver"
)

// granted are the options of a server whose callers may do what these texts say.
func granted(texts ...string) *mcpserver.Options {
	var grants []identity.Grant
	for _, text := range texts {
		g, err := identity.ParseGrant(text)
		if err != nil {
			panic(err)
		}
		grants = append(grants, g)
	}
	return &mcpserver.Options{
		Principal: func(_ context.Context, tenant reprise.Tenant, name string) (identity.Principal, error) {
			return identity.Principal{Name: name, Tenant: tenant, Grants: grants}, nil
		},
	}
}

// callOf are arguments with which a tool does something to an execution.
func callOf(tool, id string) args {
	switch tool {
	case "execute_code", "execute_code_async":
		return args{"command": "true"}
	case "list_executions":
		return args{}
	case "search_execution_output":
		return args{"execution_id": id, "pattern": "x"}
	case "cancel_execution":
		return args{"execution_id": id, "wait": 0}
	}
	return args{"execution_id": id}
}

// documented are the scopes of each tool in docs/security.md.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| MCP `([a-z_/]+)` \\| (`[^|]+`) \\|")
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		tools[match[1]] = strings.Split(strings.ReplaceAll(match[2], "`", ""), ", ")
	}
	return tools
}

// TestEachToolNeedsItsScopes walks the tools that the server has and the table in docs/security.md.
func TestEachToolNeedsItsScopes(t *testing.T) {
	table := documented(t)
	all := newFixture(t, nil)
	tools, err := all.session("2025-11-25", "", nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(tools.Tools)+1 != len(table) || len(table["resources/read"]) != 1 {
		t.Errorf("%d tools, and the table has %v", len(tools.Tools), table)
	}
	for _, scope := range identity.AllScopes() {
		others := slices.DeleteFunc(identity.AllScopes(), func(s identity.Scope) bool { return s == scope })
		var texts []string
		for _, other := range others {
			texts = append(texts, string(other))
		}
		without := newFixture(t, granted(texts...)).caller("2025-11-25", "")
		for _, tool := range tools.Tools {
			text, result := without.try(t.Context(), tool.Name, callOf(tool.Name, "none"), nil)
			refused := result.IsError && strings.HasPrefix(text, "forbidden:")
			if want := slices.Contains(table[tool.Name], string(scope)); refused != want {
				t.Errorf("%s without the scope %s: %s", tool.Name, scope, text)
			}
		}
		uri := &mcp.ReadResourceParams{URI: "reprise://executions/none"}
		_, err := without.session.ReadResource(t.Context(), uri)
		found, isRPC := errors.AsType[*jsonrpc.Error](err)
		if !isRPC || (found.Code == jsonrpc.CodeInvalidParams) == (scope == identity.ScopeRead) {
			t.Errorf("a resource without the scope %s: %v", scope, err)
		}
	}
}

// TestStdinShowsOutputToReadersOnly: who may write to a run but not read is shown no output.
func TestStdinShowsOutputToReadersOnly(t *testing.T) {
	c := newFixture(t, granted(string(identity.ScopeRun), string(identity.ScopeControl))).caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async", args{"command": "cat", "stdin_open": true}, &run)
	for _, more := range []args{{"wait": 1}, {"match": "x"}, {"cursor": "0"}} {
		more["execution_id"], more["text"] = run.ID, "x"
		c.refuse("send_stdin", more, "forbidden")
	}
	c.call("send_stdin", args{"execution_id": run.ID, "text": "x", "offset": 0}, nil) // nothing was written before
}

// TestToolsSeeTheSessionsOfTheirScopes: what is in another session is answered like what does not exist.
func TestToolsSeeTheSessionsOfTheirScopes(t *testing.T) {
	opts := granted("read:a-", "run:a-", "control:a-")
	w := newFixture(t, opts)
	start := func(id, session string) {
		request := execution.Request{ID: id, Session: session, Command: "cat", StdinOpen: true}
		if _, _, err := w.host.Start(t.Context(), reprise.DefaultTenant, request); err != nil {
			t.Fatal(err)
		}
	}
	start("mine", "a-1")
	start("hidden", "b-1")
	start("loose", "")
	c := w.caller("2025-11-25", "")
	for _, tool := range []string{
		"get_execution_output", "search_execution_output", "get_execution_status", "send_stdin", "cancel_execution",
	} {
		want, missing := c.try(t.Context(), tool, callOf(tool, "absent"), nil)
		if !missing.IsError || !strings.HasPrefix(want, "not_found:") || !strings.Contains(want, "mine") ||
			strings.Contains(want, "hidden") || strings.Contains(want, "loose") {
			t.Errorf("%s of what does not exist: %s", tool, want)
		}
		for _, id := range []string{"hidden", "loose"} {
			got, _ := c.try(t.Context(), tool, callOf(tool, id), nil)
			if got != strings.ReplaceAll(want, "absent", id) {
				t.Errorf("%s of another session: %q, and of what does not exist %q", tool, got, want)
			}
		}
	}
	for _, id := range []string{"hidden", "loose"} {
		x, err := w.host.Show(t.Context(), reprise.DefaultTenant, id)
		if err != nil || x.Status != execution.StatusRunning {
			t.Errorf("%s: %+v, %v", id, x.Status, err)
		}
		_, err = c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "reprise://executions/" + id})
		_, absent := c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "reprise://executions/absent"})
		if err == nil || absent == nil || err.Error() != strings.ReplaceAll(absent.Error(), "absent", id) {
			t.Errorf("a resource of another session: %v, and of what does not exist %v", err, absent)
		}
	}
	var list struct {
		Executions []executed
		NextCursor string `json:"next_cursor"`
	}
	c.call("list_executions", args{"limit": 1}, &list)
	if len(list.Executions) != 1 || list.Executions[0].ID != "mine" || list.NextCursor != "" {
		t.Errorf("listed: %+v", list)
	}
	for _, tool := range []string{"execute_code", "execute_code_async"} {
		c.refuse(tool, args{"command": "true"}, "forbidden")
		c.refuse(tool, args{"command": "true", "session": "b-1"}, "forbidden")
		c.call(tool, args{"command": "true", "session": "a-2"}, nil)
	}
	c.call("cancel_execution", args{"execution_id": "mine"}, nil)
}

// TestRevokedPrincipalCallsNothing: what a session may do is looked up for each call.
func TestRevokedPrincipalCallsNothing(t *testing.T) {
	opts := granted("read")
	before := opts.Principal
	var revoked bool // the calls are one after the other
	opts.Principal = func(ctx context.Context, tenant reprise.Tenant, name string) (identity.Principal, error) {
		if revoked {
			return identity.Principal{}, identity.ErrRevoked
		}
		return before(ctx, tenant, name)
	}
	c := newFixture(t, opts).caller("2025-11-25", "")
	c.call("list_executions", nil, nil)
	revoked = true
	c.refuse("list_executions", nil, "unauthenticated")
}
