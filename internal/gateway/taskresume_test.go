package gateway_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/gateway"
)

// startTask calls a tool that becomes a task.
func (f *fixture) startTask(tool, text string) (id string) {
	f.Helper()
	a := f.tool(tool, fmt.Sprintf(`{"text":%q}`, text))
	if a.Result.ResultType != "task" {
		f.Fatalf("the call is answered with %+v %s", a, a.Error)
	}
	return a.Result.TaskID
}

// noteOf returns the note of a task, as the store has it.
func (f *fixture) noteOf(id string) (note string) {
	f.Helper()
	stream, err := f.log.Stream(f.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "mcp-task:" + id})
	check(f, err)
	info, err := stream.Info(f.Context())
	check(f, err)
	if info.Tail == 0 {
		return ""
	}
	reader, err := stream.Reader(f.Context(), reprise.Earliest())
	check(f, err)
	defer reader.Close()
	for e, err := range reader.Events(f.Context()) {
		check(f, err)
		var state struct{ Note json.RawMessage }
		if e.Type == "state" && json.Unmarshal(e.Data, &state) == nil {
			note = string(state.Note)
		}
		if e.Seq == info.Tail {
			break
		}
	}
	return note
}

// untilNoted waits until the note of a task is another one than before.
func (f *fixture) untilNoted(id, before string) (note string) {
	f.Helper()
	f.eventually("the place in the answer is noted", func() bool {
		note = f.noteOf(id)
		return note != before && note != ""
	})
	return note
}

// untilTask waits for a status of a task.
func (f *fixture) untilTask(id, status string) (a answer) {
	f.Helper()
	f.eventually("the task is "+status, func() bool {
		a = f.task(id)
		return a.Result.Status == status
	})
	return a
}

// answerTask answers the question of a task once there is one.
func (f *fixture) answerTask(id, name string) {
	f.Helper()
	for key := range f.untilTask(id, "input_required").Result.InputRequests {
		f.modern("tasks/update", id,
			fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"name":%q}}}`, id, key, name))
	}
}

func (f *fixture) restart() {
	f.stop()
	f.start()
}

// TestTasksOfRemoteUpstreamGoOnAfterARestart: a task whose upstream is at a URL and resumes its answers stays working
// while its gateway is restarted, is called once, can be cancelled, and is asked again only what was not answered.
func TestTasksOfRemoteUpstreamGoOnAfterARestart(t *testing.T) {
	up := startRemote(t, "127.0.0.1:0")
	f := newFixture(t, gateway.Upstream{URL: up.url})
	f.taskAfter = 10 * time.Millisecond
	f.start()
	gate := filepath.Join(t.TempDir(), "gate")
	done, cancelled := f.startTask("hold", gate), f.startTask("hold", gate+"2")
	asking, answered := f.startTask("ask", "who"), f.startTask("askhold", gate)
	for _, id := range []string{done, cancelled, asking} {
		f.untilNoted(id, "")
	}
	before := f.untilNoted(answered, "")
	f.answerTask(answered, "Ada")
	f.untilNoted(answered, before)
	f.untilTask(asking, "input_required")
	for range 2 {
		f.restart()
		for _, id := range []string{done, cancelled, answered} {
			if a := f.task(id); a.Result.Status != "working" {
				t.Fatalf("after a restart the task is %+v %s", a, a.Error)
			}
		}
	}
	f.answerTask(asking, "Bob")
	if a := f.untilTask(asking, "completed"); !strings.Contains(string(a.Result.Result), "accept Bob") {
		t.Errorf("the task that asks has %s", a.Result.Result)
	}
	f.modern("tasks/cancel", cancelled, fmt.Sprintf(`"taskId":%q`, cancelled))
	f.untilTask(cancelled, "cancelled")
	f.eventually("the upstream is told", func() bool {
		_, err := os.Stat(gate + "2.cancelled")
		return err == nil
	})
	check(t, os.WriteFile(gate, nil, 0o600))
	if a := f.untilTask(done, "completed"); !strings.Contains(string(a.Result.Result), "held ") {
		t.Errorf("the task has %s", a.Result.Result)
	}
	if a := f.untilTask(answered, "completed"); !strings.Contains(string(a.Result.Result), "accept Ada, held ") {
		t.Errorf("the task that has asked has %s", a.Result.Result)
	}
	fresh := f.untilTask(f.startTask("hold", gate+"3"), "working")
	check(t, os.WriteFile(gate+"3", nil, 0o600))
	if a := f.untilTask(fresh.Result.TaskID, "completed"); !strings.Contains(string(a.Result.Result), "held 4") {
		t.Errorf("a call was repeated: the fourth one has %s", a.Result.Result)
	}
}

// TestTasksThatCannotBeResumedFail: the task of a command, which ends with its gateway, and one whose upstream has
// forgotten the session, end with an error that says so.
func TestTasksThatCannotBeResumedFail(t *testing.T) {
	t.Parallel()
	t.Run("command", func(t *testing.T) {
		f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", "server/discover"}})
		f.taskAfter = 10 * time.Millisecond
		f.start()
		id := f.startTask("never", "")
		f.restart()
		if a := f.untilTask(id, "failed"); !strings.Contains(string(a.Result.Error), "server_lost") {
			t.Errorf("the task is %+v", a)
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		up := startRemote(t, "127.0.0.1:0")
		f := newFixture(t, gateway.Upstream{URL: up.url})
		f.taskAfter = 10 * time.Millisecond
		f.start()
		id := f.startTask("hold", filepath.Join(t.TempDir(), "never"))
		f.untilNoted(id, "")
		f.stop()
		up.kill()
		startRemote(t, strings.TrimPrefix(up.url, "http://"))
		f.start()
		if a := f.untilTask(id, "failed"); !strings.Contains(string(a.Result.Error), "upstream_lost") {
			t.Errorf("the task is %+v", a)
		}
	})
}
