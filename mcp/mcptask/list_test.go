package mcptask_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// as calls a tool as a user and returns the id of the task.
func (w *fixture) as(user, tool, arguments string) string {
	w.t.Helper()
	a := w.send(user, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), withTasks)
	if a.Result.ResultType != "task" {
		w.t.Fatalf("%s: %+v", tool, a)
	}
	return a.Result.TaskID
}

// list returns the ids on each page.
func (w *fixture) list(q mcptask.TaskQuery) (pages [][]string) {
	w.t.Helper()
	for {
		page, err := w.tasks.List(w.t.Context(), reprise.DefaultTenant, q)
		if err != nil {
			w.t.Fatal(err)
		}
		var ids []string
		for _, task := range page.Tasks {
			ids = append(ids, task.ID)
		}
		pages = append(pages, ids)
		if q.After = page.Next; q.After == "" {
			return pages
		}
		if len(pages) > 20 {
			w.t.Fatal("the pages do not end")
		}
	}
}

// TestTasksAreListed: pages are whole and end where nothing more is allowed.
func TestTasksAreListed(t *testing.T) {
	w := newFixture(t, nil)
	var ann, ben []string // newest first
	for i := range 7 {
		user, list := "ann", &ann
		if i%3 == 0 {
			user, list = "ben", &ben
		}
		*list = slices.Insert(*list, 0, w.as(user, "slow_compute", `{"seconds":600}`))
	}
	if got := w.list(mcptask.TaskQuery{Limit: 3}); len(got) != 3 || len(slices.Concat(got...)) != 7 {
		t.Errorf("all: %v", got)
	}
	of := func(who string) func(string) bool { return func(principal string) bool { return principal == who } }
	if got := w.list(mcptask.TaskQuery{Limit: 2, Allowed: of("ben")}); len(got) != 2 ||
		!slices.Equal(slices.Concat(got...), ben) {
		t.Errorf("of ben: %v, want %v", got, ben)
	}
	if got := w.list(mcptask.TaskQuery{Limit: 4, Allowed: of("ann")}); len(got) != 1 || !slices.Equal(got[0], ann) {
		t.Errorf("of ann: %v, want %v", got, ann) // ben has older ones, so that a cursor would tell
	}
	for _, q := range []mcptask.TaskQuery{{Limit: -1}, {Limit: 1001}, {After: "?"}} {
		if _, err := w.tasks.List(t.Context(), reprise.DefaultTenant, q); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if page, err := w.tasks.List(t.Context(), "acme", mcptask.TaskQuery{}); err != nil || len(page.Tasks) > 0 {
		t.Errorf("of another tenant: %+v, %v", page, err)
	}
}

// TestTaskIsShown: what is shown of a task is what its client sees, and its note.
func TestTaskIsShown(t *testing.T) {
	log := newLog(t, memstore.New(nil))
	said := make(chan struct{})
	w := newFixtureWith(t, log, nil, func(server *mcp.Server, tasks *mcptask.Tasks) {
		mcp.AddTool(server, &mcp.Tool{Name: "talker"},
			func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				if err := mcptask.Note(ctx, map[string]string{"id": "x1"}); err != nil {
					return nil, nil, err
				}
				for i := range 600 { // more than are read to describe it
					if err := mcptask.FromContext(ctx).Say(ctx, fmt.Sprint("step ", i)); err != nil {
						return nil, nil, err
					}
				}
				close(said)
				<-ctx.Done()
				return nil, nil, context.Cause(ctx)
			})
		tasks.Support("talker", mcptask.Tool{})
	})
	t.Cleanup(func() { log.Close() })
	t.Cleanup(w.close)
	id := w.as("ann", "talker", `{}`)
	<-said
	show := func() mcptask.TaskInfo {
		t.Helper()
		info, err := w.tasks.Show(t.Context(), reprise.DefaultTenant, id)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	info := show()
	var note struct{ ID string }
	if err := json.Unmarshal(info.Note, &note); err != nil || note.ID != "x1" {
		t.Errorf("note %s: %v", info.Note, err)
	}
	if info.Tool != "talker" || info.Principal != "ann" || info.Status != mcptask.Working ||
		info.Message != "step 599" || info.Created.IsZero() || info.Updated.Before(info.Created) ||
		!info.Expires.IsZero() || info.CancelRequested {
		t.Errorf("while it runs: %+v", info)
	}
	for range 2 { // and again
		if err := w.tasks.Cancel(t.Context(), reprise.DefaultTenant, id); err != nil {
			t.Fatal(err)
		}
		for info = show(); info.Status == mcptask.Working; info = show() {
			if err := sleep(t.Context(), 5*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a := w.send("ann", "tasks/get", fmt.Sprintf(`{"taskId":%q}`, id), withTasks); a.Result.Status != info.Status {
		t.Errorf("its client sees %+v", a)
	}
	if info = show(); info.Status != mcptask.Cancelled || !info.CancelRequested || info.Expires.IsZero() ||
		!strings.Contains(info.Message, "cancelled") {
		t.Errorf("in the end: %+v", info)
	}
	for _, absent := range []string{"x", strings.Repeat("A", 26)} {
		_, err := w.tasks.Show(t.Context(), reprise.DefaultTenant, absent)
		if cerr := w.tasks.Cancel(t.Context(), reprise.DefaultTenant, absent); !errors.Is(err, reprise.ErrNotFound) ||
			!errors.Is(cerr, reprise.ErrNotFound) {
			t.Errorf("%s: %v, %v", absent, err, cerr)
		}
	}
	if _, err := w.tasks.Show(t.Context(), "acme", id); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("to another tenant: %v", err)
	}
}

// TestQuestionsAreShown: a task that asks is shown as one that needs input, until it is answered.
func TestQuestionsAreShown(t *testing.T) {
	w := newFixture(t, nil)
	id := w.task("confirm_delete", `{}`)
	w.until(id, mcptask.InputRequired)
	status := func() mcptask.Status {
		t.Helper()
		info, err := w.tasks.Show(t.Context(), reprise.DefaultTenant, id)
		if err != nil {
			t.Fatal(err)
		}
		return info.Status
	}
	if got := status(); got != mcptask.InputRequired {
		t.Errorf("while it asks: %s", got)
	}
	w.update(id, `{"confirm":{"action":"accept","content":{}}}`)
	w.until(id, mcptask.Completed)
	if got := status(); got != mcptask.Completed {
		t.Errorf("in the end: %s", got)
	}
}
