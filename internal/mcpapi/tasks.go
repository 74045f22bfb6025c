package mcpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
	"reprise/mcp/mcptask"
)

// tasksPath is where the tasks of MCP clients are listed.
const tasksPath = "/v1/tasks"

// Tasks shows and cancels the tasks of endpoints over HTTP.
type Tasks []TaskEndpoint

// Routes implements web.Part.
func (s Tasks) Routes(m *web.Mux) {
	m.Handle("GET", tasksPath, identity.ScopeRead, []string{"limit", "cursor"}, s.list)
	m.Handle("GET", tasksPath+"/{id}", identity.ScopeRead, nil, s.show)
	m.Handle("POST", tasksPath+"/{id}/cancel", identity.ScopeControl, nil, s.cancel)
}

// TaskEndpoint are the tasks of an MCP endpoint.
type TaskEndpoint struct {
	// Name is that of the endpoint.
	Name  string
	Tasks *mcptask.Tasks
	// Execution returns the id of the execution that a note names, or "". Default: no task has an execution.
	Execution func(note json.RawMessage) string
}

// taskBody is how a task is shown.
type taskBody struct {
	client.Task
	Links taskLinks `json:"links"`
}

type taskLinks struct {
	Self      string `json:"self"`
	Execution string `json:"execution,omitempty"`
}

func (e *TaskEndpoint) show(t *mcptask.TaskInfo) taskBody {
	b := taskBody{Links: taskLinks{Self: tasksPath + "/" + url.PathEscape(t.ID)}, Task: client.Task{
		ID: t.ID, Endpoint: e.Name, Tool: t.Tool, Status: string(t.Status), Message: t.Message, Principal: t.Principal,
		Created: wire.At(t.Created), Updated: wire.At(t.Updated), Expires: wire.At(t.Expires),
		CancelRequested: t.CancelRequested,
	}}
	if !t.Expires.IsZero() {
		ttl := max(t.Expires.Sub(t.Created).Milliseconds(), 1)
		b.TTLMS = &ttl
	}
	if e.Execution != nil {
		if id := e.Execution(t.Note); id != "" {
			b.Execution, b.Links.Execution = &id, "/v1/executions/"+url.PathEscape(id)
		}
	}
	return b
}

// mayTask reports whether the sender may see the tasks of a principal of its tenant: its own, and an administrator
// those of others.
func mayTask(x *web.Exchange, principal string) bool {
	return principal == x.Who.Name || x.Who.MayAll(identity.ScopeAdmin)
}

func (s Tasks) list(x *web.Exchange) error {
	list := func(e *TaskEndpoint, limit int, after string) (shown []taskBody, next string, err error) {
		page, err := e.Tasks.List(x.R.Context(), x.Who.Tenant,
			mcptask.TaskQuery{Limit: limit, After: after, Allowed: func(p string) bool { return mayTask(x, p) }})
		for i := range page.Tasks {
			shown = append(shown, e.show(&page.Tasks[i]))
		}
		return shown, page.Next, err
	}
	shown, next, err := listEach(x, s, list)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, struct {
		Tasks      []taskBody `json:"tasks"`
		NextCursor string     `json:"next_cursor"`
	}{shown, next})
}

// withTask calls do with the task of the path. To those who may not see it, it does not exist, and neither does one
// that has expired, whose principal is not known any more. All missing tasks are refused after the same time.
func (s Tasks) withTask(x *web.Exchange, do func(*TaskEndpoint, *mcptask.TaskInfo) error) error {
	begun := time.Now()
	var task mcptask.TaskInfo
	var at *TaskEndpoint
	err := findIn(s, func(e *TaskEndpoint) (err error) {
		at = e
		task, err = e.Tasks.Show(x.R.Context(), x.Who.Tenant, x.R.PathValue("id"))
		return err
	})
	absent := errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
	if absent || err == nil && !mayTask(x, task.Principal) {
		identity.EvenOut(x.R.Context(), begun)
		return reprise.ErrNotFound // without the name of a stream
	}
	if err != nil {
		return err
	}
	return do(at, &task)
}

func (s Tasks) show(x *web.Exchange) error {
	return s.withTask(x, func(e *TaskEndpoint, task *mcptask.TaskInfo) error {
		return x.Answer(http.StatusOK, e.show(task))
	})
}

func (s Tasks) cancel(x *web.Exchange) error {
	return s.withTask(x, func(e *TaskEndpoint, task *mcptask.TaskInfo) error {
		if err := e.Tasks.Cancel(x.R.Context(), x.Who.Tenant, task.ID); err != nil {
			return err
		}
		return x.Done()
	})
}
