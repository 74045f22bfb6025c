package mcpserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/mcpserver"
	"reprise/internal/shared"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
	"reprise/replica"
	"reprise/store/memstore"
)

// newReplica returns a fixture that shares its store with others. When a replica fails, its member fails first.
func newReplica(t *testing.T, hub *shared.Hub, keys *reprise.Keyset) (*fixture, *replica.Member) {
	t.Helper()
	log, err := reprise.Open(t.Context(), hub.Store(), &reprise.Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	member, err := replica.Join(t.Context(), log,
		&replica.Options{Beat: 50 * time.Millisecond, TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	host, err := execution.Open(t.Context(), log,
		&execution.Options{
			StateDir: t.TempDir(), Grace: patience, Secret: []byte("secret"), Drive: interpreter.Drive, Replica: member,
		})
	if err != nil {
		t.Fatal(err)
	}
	server, err := mcpserver.New(log, host, &mcpserver.Options{Replica: member, TaskAfter: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := mcphttp.New(log, server.Backend(), &mcphttp.Options{Replica: member})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	return &fixture{t: t, log: log, host: host, server: server, url: web.URL, close: func() {
		server.Close()
		handler.Close()
		web.CloseClientConnections()
		web.Close()
		host.Close()
		member.Close()
		log.Close()
		http.DefaultClient.CloseIdleConnections()
	}}, member
}

// TestReplicasControlEachOthersExecutions: started on one, read, written to, asked for and cancelled on the other; and
// one dies.
func TestReplicasControlEachOthersExecutions(t *testing.T) {
	hub, keys := shared.New(memstore.New(nil)), reprise.NewKeyset()
	a, inA := newReplica(t, hub, keys)
	b, _ := newReplica(t, hub, keys)
	onA, onB := a.caller("2025-11-25", ""), b.caller("2025-11-25", "")
	var run executed
	onA.call("execute_code_async", args{"command": "cat", "stdin_open": true}, &run)
	onB.call("send_stdin", args{"execution_id": run.ID, "text": "over there\n", "eof": true}, nil)
	if got := onB.all(run.ID, run.Cursor, "stdout"); got != "over there\n" {
		t.Errorf("read %q", got)
	}
	done := a.raw("tools/call", `"name":"execute_code","arguments":{"command":"sleep 0.3; echo done"}`)
	if got := b.untilEnded(done.TaskID); got.Status != mcptask.Completed ||
		got.Result.executed().Stdout.Text != "done\n" {
		t.Errorf("a task of the other one: %+v", got)
	}
	cancelled := a.raw("tools/call", `"name":"execute_code","arguments":{"command":"sleep 60"}`)
	b.raw("tasks/cancel", fmt.Sprintf(`"taskId":%q`, cancelled.TaskID))
	if got := b.untilEnded(cancelled.TaskID); got.Status != mcptask.Cancelled {
		t.Errorf("cancelled from the other one: %+v", got)
	}
	orphan := a.raw("tools/call", `"name":"execute_code","arguments":{"command":"echo begun; sleep 60"}`)
	for deadline := time.Now().Add(patience); b.raw("tasks/get",
		fmt.Sprintf(`"taskId":%q`, orphan.TaskID)).StatusMessage == ""; {
		if time.Now().After(deadline) {
			t.Fatal("the task does not know its run")
		}
		time.Sleep(10 * time.Millisecond)
	}
	inA.Close()
	got := b.untilEnded(orphan.TaskID)
	if got.Status != mcptask.Completed || !got.Result.IsError || got.Result.executed().Outcome != "lost" {
		t.Errorf("the task of a dead one: %+v", got)
	}
	onA.session.Close()
	onB.session.Close()
	a.close()
	b.close()
}
