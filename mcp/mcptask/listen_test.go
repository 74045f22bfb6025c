package mcptask_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// told is a notification, or the response to a subscriptions/listen.
type told struct {
	Method string `json:"method"`
	ID     any    `json:"id"`
	Params struct {
		Meta          map[string]any             `json:"_meta"`
		TaskID        string                     `json:"taskId"`
		Status        mcptask.Status             `json:"status"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		Result        *struct{ Content []any }   `json:"result"`
		Notifications struct {
			TaskIDs          []string `json:"taskIds"`
			ToolsListChanged bool     `json:"toolsListChanged"`
		} `json:"notifications"`
	} `json:"params"`
	Error *struct{ Code int } `json:"error"`
}

// listen sends a subscriptions/listen and returns what comes, until ctx is done.
func (w *fixture) listen(ctx context.Context, user, notifications, capabilities string) <-chan told {
	w.t.Helper()
	response, err := http.DefaultClient.Do(w.request(ctx, user, "subscriptions/listen",
		`{"notifications":`+notifications+`}`, capabilities))
	if err != nil {
		w.t.Fatal(err)
	}
	lines := make(chan told, 100)
	go func() {
		defer close(lines)
		defer response.Body.Close()
		scanner := bufio.NewScanner(response.Body)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			data := scanner.Text()
			data = strings.TrimPrefix(data, "data:")
			var m told
			if json.Unmarshal([]byte(data), &m) == nil {
				lines <- m
			}
		}
	}()
	return lines
}

func next(t *testing.T, from <-chan told) told {
	t.Helper()
	select {
	case m, ok := <-from:
		if !ok {
			t.Fatal("it has ended")
		}
		return m
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	return told{}
}

func TestListen(t *testing.T) {
	w := newFixture(t, nil)
	id, other := w.task("multi_input", `{}`), w.send("bob", "tools/call",
		`{"name":"slow_compute","arguments":{"seconds":60}}`, withTasks).Result.TaskID
	asked := w.until(id, mcptask.InputRequired)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	heard := w.listen(ctx, "",
		fmt.Sprintf(`{"taskIds":[%q,%q,"nothing"],"toolsListChanged":true}`, id, other), withTasks)
	first := next(t, heard)
	if got := first.Params.Notifications; first.Method != "notifications/subscriptions/acknowledged" ||
		len(got.TaskIDs) != 1 || got.TaskIDs[0] != id || !got.ToolsListChanged {
		t.Fatalf("acknowledged: %+v", first)
	}
	now := next(t, heard)
	subscription := now.Params.Meta[mcp.MetaKeySubscriptionID]
	if now.Method != "notifications/tasks" || now.Params.TaskID != id ||
		now.Params.Status != mcptask.InputRequired || subscription == nil ||
		subscription != first.Params.Meta[mcp.MetaKeySubscriptionID] {
		t.Fatalf("how it is: %+v", now)
	}
	for key := range asked.Result.InputRequests {
		w.update(id, fmt.Sprintf(`{%q:{"action":"accept"}}`, key))
	}
	for {
		m := next(t, heard)
		if m.Params.Status == mcptask.Completed {
			if m.Params.Result == nil || len(m.Params.Result.Content) != 1 {
				t.Errorf("the end: %+v", m)
			}
			break
		}
	}
}

func TestListenIsRefused(t *testing.T) {
	w := newFixture(t, nil)
	id := w.task("slow_compute", `{"seconds":60}`)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if m := next(t, w.listen(ctx, "", fmt.Sprintf(`{"taskIds":[%q]}`, id), without)); m.Error == nil ||
		m.Error.Code != -32021 {
		t.Errorf("without the extension: %+v", m)
	}
	// Nothing to tell of: the acknowledgement says so.
	m := next(t, w.listen(ctx, "bob", fmt.Sprintf(`{"taskIds":[%q]}`, id), withTasks))
	if len(m.Params.Notifications.TaskIDs) != 0 || m.Method == "" {
		t.Errorf("by somebody else: %+v", m)
	}
}

// TestStdioServesTasks: without mcphttp, over a pipe.
func TestStdioServesTasks(t *testing.T) {
	log := newLog(t, memstore.New(nil))
	defer log.Close()
	tasks, err := mcptask.New(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	addTools(server, tasks)
	if err := tasks.Install(server); err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- server.Run(ctx, tasks.Transport(&mcp.IOTransport{Reader: in, Writer: out})) }()
	defer func() { stop(); toServer.Close(); fromServer.Close(); <-done }()
	lines := make(chan []byte, 100)
	go func() {
		scanner := bufio.NewScanner(fromServer)
		for scanner.Scan() {
			lines <- []byte(scanner.Text())
		}
		close(lines)
	}()
	w := &fixture{t: t}
	send := func(method, params string) { fmt.Fprintln(toServer, w.body(method, params, withTasks)) }
	send("tools/call", `{"name":"slow_compute","arguments":{"seconds":5}}`)
	var created answer
	if err := json.Unmarshal(<-lines, &created); err != nil || created.Result.TaskID == "" {
		t.Fatalf("created: %+v, %v", created, err)
	}
	send("subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q]}}`, created.Result.TaskID))
	for _, want := range []mcptask.Status{"", mcptask.Working, mcptask.Completed} {
		var m told
		if err := json.Unmarshal(<-lines, &m); err != nil || m.Params.Status != want {
			t.Fatalf("told %+v (%v), want %q", m, err, want)
		}
	}
}

// TestListenOverFork: a listener that was told of events which a promotion lost is told how the task is without them,
// and then of what comes.
func TestListenOverFork(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	log := newLog(t, hub.Store())
	defer log.Close()
	w := newFixtureOn(t, log, nil)
	defer w.close()
	id := w.task("multi_input", `{}`)
	w.until(id, mcptask.InputRequired)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	heard := w.listen(ctx, "", fmt.Sprintf(`{"taskIds":[%q]}`, id), withTasks)
	for next(t, heard).Params.Status != mcptask.InputRequired { // the first is the acknowledgement
	}
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "mcp-task:" + id}
	if err := hub.Lose(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
	if m := next(t, heard); m.Params.Status != mcptask.Working {
		t.Errorf("after the loss it is told of %+v", m)
	}
}
