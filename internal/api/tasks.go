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
	"reprise/mcp/mcptask"
)

// tasksPath is where the tasks of MCP clients are listed.
const tasksPath = "/v1/tasks"

func taskRoutes() []route {
	return []route{
		{"GET", tasksPath, identity.ScopeRead, []string{"limit", "cursor"}, (*Server).listTasks},
		{"GET", tasksPath + "/{id}", identity.ScopeRead, nil, (*Server).showTask},
		{"POST", tasksPath + "/{id}/cancel", identity.ScopeControl, nil, (*Server).cancelTask},
	}
}

// MCPTasks are the tasks of an MCP endpoint.
type MCPTasks struct {
	Tasks *mcptask.Tasks
	// Execution returns the id of the execution that a note names, or "". Default: no task has an execution.
	Execution func(note json.RawMessage) string
}

// taskBody is how a task is shown.
type taskBody struct {
	ID              string          `json:"id"`
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

func (s *Server) showTaskInfo(t *mcptask.TaskInfo) taskBody {
	b := taskBody{
		ID: t.ID, Tool: t.Tool, Status: t.Status, Message: t.Message, Principal: t.Principal,
		Created: timeOf(t.Created), Updated: timeOf(t.Updated), Expires: timeOrNull(t.Expires),
		CancelRequested: t.CancelRequested, Links: taskLinks{Self: tasksPath + "/" + url.PathEscape(t.ID)},
	}
	if !t.Expires.IsZero() {
		ttl := max(t.Expires.Sub(t.Created).Milliseconds(), 1)
		b.TTL = &ttl
	}
	if s.opts.MCPTasks.Execution != nil {
		if id := s.opts.MCPTasks.Execution(t.Note); id != "" {
			b.Execution, b.Links.Execution = &id, "/v1/executions/"+url.PathEscape(id)
		}
	}
	return b
}

// mayTask reports whether the sender may see the tasks of a principal of its tenant: its own, and an administrator
// those of others.
func (x *exchange) mayTask(principal string) bool {
	return principal == x.who.Name || x.who.MayAll(identity.ScopeAdmin)
}

func (s *Server) listTasks(x *exchange) error {
	limit, cursor, err := x.query.page()
	if err != nil {
		return err
	}
	page, err := s.opts.MCPTasks.Tasks.List(x.r.Context(), x.who.Tenant,
		mcptask.TaskQuery{Limit: limit, After: cursor, Allowed: x.mayTask})
	if err != nil {
		return err
	}
	shown := make([]taskBody, len(page.Tasks))
	for i := range page.Tasks {
		shown[i] = s.showTaskInfo(&page.Tasks[i])
	}
	return s.answer(x, http.StatusOK, struct {
		Tasks      []taskBody `json:"tasks"`
		NextCursor string     `json:"next_cursor"`
	}{shown, page.Next})
}

// task finds the task of the path. To those who may not see it, it does not exist, and neither does one that has
// expired, whose principal is not known any more. All missing tasks are refused after the same time.
func (s *Server) task(x *exchange) (mcptask.TaskInfo, error) {
	begun := time.Now()
	task, err := s.opts.MCPTasks.Tasks.Show(x.r.Context(), x.who.Tenant, x.r.PathValue("id"))
	absent := errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
	if absent || err == nil && !x.mayTask(task.Principal) {
		identity.EvenOut(x.r.Context(), begun)
		return mcptask.TaskInfo{}, reprise.ErrNotFound // without the name of a stream
	}
	return task, err
}

func (s *Server) showTask(x *exchange) error {
	task, err := s.task(x)
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, s.showTaskInfo(&task))
}

func (s *Server) cancelTask(x *exchange) error {
	task, err := s.task(x)
	if err != nil {
		return err
	}
	if err := s.opts.MCPTasks.Tasks.Cancel(x.r.Context(), x.who.Tenant, task.ID); err != nil {
		return err
	}
	return x.done()
}
