package mcptask_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcptask"
	"reprise/replica"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	open := func() (*sqlitestore.Store, *fixture) {
		store, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return store, newFixtureOn(t, newLog(t, store), nil)
	}
	store, w := open()
	done, running := w.task("slow_compute", `{"label":"kept"}`), w.task("slow_compute", `{"seconds":60}`)
	w.until(done, mcptask.Completed)
	w.close()
	w.log.Close()
	store.Close()

	store, w = open()
	defer func() { w.close(); w.log.Close(); store.Close() }()
	if a := w.get(done); a.Result.Status != mcptask.Completed || a.Result.Result.Content[0]["text"] != "computed kept" {
		t.Errorf("what had ended: %+v", a)
	}
	a := w.until(running, mcptask.Failed)
	if !strings.Contains(string(a.Result.Error.Data), "server_lost") {
		t.Errorf("what was running: %+v", a.Result.Error)
	}
}

// TestServerDies: the process goes without a word. What is left of it does no harm.
func TestServerDies(t *testing.T) {
	store := memstore.New(nil)
	log := newLog(t, store)
	defer log.Close()
	dead := newFixtureOn(t, log, nil)
	defer dead.close()
	id := dead.task("slow_compute", `{"seconds":60}`)
	asking := dead.task("confirm_delete", `{}`)
	dead.until(asking, mcptask.InputRequired)

	var lost atomic.Int64
	w := newFixtureOn(t, log, &mcptask.Options{Hooks: &mcptask.Hooks{Lost: func(reprise.Tenant) { lost.Add(1) }}})
	defer w.close()
	w.until(id, mcptask.Failed)
	if a := w.until(asking, mcptask.Failed); a.Result.InputRequests != nil {
		t.Errorf("it asks still: %+v", a)
	}
	if lost.Load() != 2 {
		t.Errorf("%d are lost, want 2", lost.Load())
	}
}

// TestToolCompletesTaskAfterRestart: a tool whose work outlives the server completes the task after a restart.
func TestToolCompletesTaskAfterRestart(t *testing.T) {
	log := newLog(t, memstore.New(nil))
	defer log.Close()
	begin := func(server *mcp.Server) *mcptask.Tasks {
		tasks, err := mcptask.New(log, nil)
		if err != nil {
			t.Fatal(err)
		}
		tasks.Support("job", mcptask.Tool{Lost: func(_ context.Context, tenant reprise.Tenant, note json.RawMessage) (
			*mcp.CallToolResult, error,
		) {
			return text("%s %s", tenant, note), nil
		}})
		if err := tasks.Install(server); err != nil {
			t.Fatal(err)
		}
		return tasks
	}
	noted := make(chan struct{})
	server := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	server.AddTool(&mcp.Tool{
		Name:        "job",
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := mcptask.FromContext(ctx).Note(ctx, "job 7"); err != nil {
			return nil, err
		}
		close(noted)
		return nil, sleep(ctx, time.Minute)
	})
	defer begin(server).Close()
	id := callInMemory(t, server)
	<-noted
	defer begin(mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)).Close()
	awaitEnds(t, log)
	w := newFixtureOn(t, log, nil) // it does not know the tool, and would end the task as lost
	defer w.close()
	if a := w.until(id, mcptask.Completed); a.Result.Result.Content[0]["text"] != `default "job 7"` {
		t.Errorf("what came of it: %+v", a)
	}
}

// awaitEnds waits until every task of a log has ended.
func awaitEnds(t *testing.T, log *reprise.Log) {
	t.Helper()
	open := func(info reprise.StreamInfo) bool {
		return strings.HasPrefix(info.Key.Name, "mcp-task:") && info.End == nil
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		page, err := log.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(page.Streams, open) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a task does not end")
		}
	}
}

// callInMemory calls the tool "job", and returns the id of the task that it becomes.
func callInMemory(t *testing.T, server *mcp.Server) string {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	session, err := server.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ours.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	defer conn.Close()
	w := &fixture{t: t}
	message := decode(t, w.body("tools/call", `{"name":"job","arguments":{}}`, withTasks))
	if err := conn.Write(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	got, err := conn.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(encode(t, got), &a); err != nil || a.Result.TaskID == "" {
		t.Fatalf("answered %s (%v)", encode(t, got), err)
	}
	return a.Result.TaskID
}

func TestReplicas(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	join := func() (*fixture, *replica.Member) {
		log := newLog(t, hub.Store())
		member, err := replica.Join(t.Context(), log,
			&replica.Options{Beat: 50 * time.Millisecond, TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return newFixtureOn(t, log, &mcptask.Options{Replica: member}), member
	}
	a, inA := join()
	b, inB := join()
	// Started on one, seen, answered and cancelled on the other.
	id := a.task("confirm_delete", `{}`)
	b.until(id, mcptask.InputRequired)
	b.update(id, `{"confirm":{"action":"accept"}}`)
	b.until(id, mcptask.Completed)
	id = a.task("slow_compute", `{"seconds":60}`)
	ctx, stop := context.WithCancel(t.Context())
	heard := b.listen(ctx, "", `{"taskIds":["`+id+`"]}`, withTasks)
	next(t, heard)
	b.send("", "tasks/cancel", `{"taskId":"`+id+`"}`, withTasks)
	for next(t, heard).Params.Status != mcptask.Cancelled {
	}
	stop()
	// One dies.
	id = a.task("slow_compute", `{"seconds":60}`)
	inA.Close()
	b.until(id, mcptask.Failed)
	for _, w := range []*fixture{a, b} {
		w.close()
	}
	inB.Close()
	a.log.Close()
	b.log.Close()
	http.DefaultClient.CloseIdleConnections()
}
