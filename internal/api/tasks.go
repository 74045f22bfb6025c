package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
	"reprise/mcp/mcptask"
)

// tasksPath is where the tasks of MCP clients are listed.
const tasksPath = "/v1/tasks"

func (s *Server) taskRoutes(m *web.Mux) {
	m.Handle("GET", tasksPath, identity.ScopeRead, []string{"limit", "cursor"}, s.listTasks)
	m.Handle("GET", tasksPath+"/{id}", identity.ScopeRead, nil, s.showTask)
	m.Handle("POST", tasksPath+"/{id}/cancel", identity.ScopeControl, nil, s.cancelTask)
}

// MCPTasks are the tasks of an MCP endpoint.
type MCPTasks struct {
	// Name is that of the endpoint.
	Name  string
	Tasks *mcptask.Tasks
	// Execution returns the id of the execution that a note names, or "". Default: no task has an execution.
	Execution func(note json.RawMessage) string
}

// taskBody is how a task is shown.
type taskBody struct {
	ID string `json:"id"`
	// Endpoint is the endpoint whose tool was called; see Options.MCPTasks.
	Endpoint        string          `json:"endpoint"`
	Tool            string          `json:"tool"`
	Status          mcptask.Status  `json:"status"`
	Message         string          `json:"message"`
	Principal       string          `json:"principal"`
	Execution       *string         `json:"execution"`
	Created         execution.Time  `json:"created"`
	Updated         execution.Time  `json:"updated"`
	Expires         *execution.Time `json:"expires"`
	TTL             *int64          `json:"ttl_ms"`
	CancelRequested bool            `json:"cancel_requested"`
	Links           taskLinks       `json:"links"`
}

type taskLinks struct {
	Self      string `json:"self"`
	Execution string `json:"execution,omitempty"`
}

func (e *MCPTasks) show(t *mcptask.TaskInfo) taskBody {
	b := taskBody{
		ID: t.ID, Endpoint: e.Name, Tool: t.Tool, Status: t.Status, Message: t.Message, Principal: t.Principal,
		Created: wire.At(t.Created), Updated: wire.At(t.Updated), Expires: wire.NonZero(t.Expires),
		CancelRequested: t.CancelRequested, Links: taskLinks{Self: tasksPath + "/" + url.PathEscape(t.ID)},
	}
	if !t.Expires.IsZero() {
		ttl := max(t.Expires.Sub(t.Created).Milliseconds(), 1)
		b.TTL = &ttl
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

func (s *Server) listTasks(x *web.Exchange) error {
	list := func(e *MCPTasks, limit int, after string) (shown []taskBody, next string, err error) {
		page, err := e.Tasks.List(x.R.Context(), x.Who.Tenant,
			mcptask.TaskQuery{Limit: limit, After: after, Allowed: func(p string) bool { return mayTask(x, p) }})
		for i := range page.Tasks {
			shown = append(shown, e.show(&page.Tasks[i]))
		}
		return shown, page.Next, err
	}
	shown, next, err := listEach(x, s.opts.MCPTasks, list)
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
func (s *Server) withTask(x *web.Exchange, do func(*MCPTasks, *mcptask.TaskInfo) error) error {
	begun := time.Now()
	var task mcptask.TaskInfo
	var at *MCPTasks
	err := findIn(s.opts.MCPTasks, func(e *MCPTasks) (err error) {
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

func (s *Server) showTask(x *web.Exchange) error {
	return s.withTask(x, func(e *MCPTasks, task *mcptask.TaskInfo) error {
		return x.Answer(http.StatusOK, e.show(task))
	})
}

func (s *Server) cancelTask(x *web.Exchange) error {
	return s.withTask(x, func(e *MCPTasks, task *mcptask.TaskInfo) error {
		if err := e.Tasks.Cancel(x.R.Context(), x.Who.Tenant, task.ID); err != nil {
			return err
		}
		return x.Done()
	})
}
