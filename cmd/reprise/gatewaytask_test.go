package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reprise/internal/testserver"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// startGateway starts a gateway on the data directory of o, in place of the one before.
func (o *outliving) startGateway(args ...string) {
	o.t.Helper()
	program, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	o.daemon, err = startProgram(&daemonSpec{
		path: program, dir: o.dir, log: filepath.Join(o.dir, "log"), env: append(os.Environ(), "HOME="+o.dir),
		args: append([]string{
			"reprise", "gateway", "--listen", o.listen, "--data", filepath.Join(o.dir, "data"), "--task-after", "10ms",
			"--log-level", "warn",
		}, args...),
	})
	if err != nil {
		o.t.Fatal(err)
	}
}

// killGateway kills the gateway, and starts another one in its place.
func (o *outliving) killGateway(args ...string) {
	o.t.Helper()
	if err := o.daemon.kill(); err != nil {
		o.t.Fatal(err)
	}
	o.startGateway(args...)
}

func outliveGateway(t *testing.T, args ...string) *outliving {
	t.Helper()
	o := &outliving{t: t, dir: testserver.TempDir(t), listen: freeAddress(t)}
	o.startGateway(args...)
	t.Cleanup(func() {
		_ = o.daemon.kill()
		http.DefaultClient.CloseIdleConnections()
	})
	return o
}

// startToolTask calls a tool whose call becomes a task.
func (o *outliving) startToolTask(tool, arguments string) (id string) {
	o.t.Helper()
	task := o.ask("tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
	if task.TaskID == "" {
		o.t.Fatalf("the call did not become a task: %+v", task)
	}
	return task.TaskID
}

// TestTasksOfKilledGateway: a gateway that is killed twice goes on with a task whose upstream is at a URL, is of an
// older version and resumes its answers.
func TestTasksOfKilledGateway(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)
	gate, calls := make(chan struct{}), atomic.Int64{}
	mcp.AddTool(server, &mcp.Tool{Name: "hold"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (
		*mcp.CallToolResult, any, error,
	) {
		n := calls.Add(1)
		progress := &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Message: "holding"}
		for ; ; progress.Progress++ {
			if err := r.Session.NotifyProgress(ctx, progress); err != nil {
				return nil, nil, err
			}
			select {
			case <-gate:
				text := &mcp.TextContent{Text: fmt.Sprint("held ", n)}
				return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil, nil
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	upstream := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}))
	defer upstream.Close()
	defer upstream.CloseClientConnections()
	o := outliveGateway(t, upstream.URL)
	id := o.startToolTask("hold", "{}")
	if !eventually(func() bool { return o.task(id).StatusMessage == "holding" }) { // the answer has been read so far
		t.Fatal("the progress is not shown")
	}
	for range 2 {
		o.killGateway(upstream.URL)
		if task := o.task(id); task.Status != "working" {
			t.Fatalf("after a restart the task is %+v", task)
		}
	}
	close(gate)
	if task := o.untilTask(id, "completed"); task.Result == nil || task.Result.Content[0].Text != "held 1" {
		t.Errorf("the task is %+v", task)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// TestTasksOfUpstreamsOutliveTheGateway: the tasks of an upstream that has tasks itself are those of the upstream: they
// go on when the gateway is killed, and so do those of a command that finds them again, as "reprise mcp" does. The
// command may see the end of its stdin before it is killed with the gateway. Without --drain it would cancel its tasks.
func TestTasksOfUpstreamsOutliveTheGateway(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	served := startOutliving(t)
	token, err := os.ReadFile(filepath.Join(served.dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "reprise")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"URL": {
			"--header", "Authorization=Bearer " + strings.TrimSpace(string(token)),
			"http://" + served.daemon.addr + "/mcp",
		},
		"command": {"--", link, "mcp", "--drain", "10m", "--data", filepath.Join(testserver.TempDir(t), "data")},
	} {
		t.Run(name, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "gate")
			o := outliveGateway(t, args...)
			id := o.startToolTask("execute_code",
				fmt.Sprintf(`{"command":"echo begun; until [ -e %s ]; do sleep 0.02; done; echo done"}`, gate))
			o.killGateway(args...)
			if task := o.task(id); task.Status != "working" {
				t.Fatalf("after a restart the task is %+v with %+v", task, task.Result)
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			task := o.untilTask(id, "completed")
			if task.Result == nil || !strings.HasPrefix(task.Result.Content[0].Text, "begun\ndone\n") {
				t.Errorf("the task is %+v with %+v", task, task.Result)
			}
		})
	}
}
