package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Task is a call of an MCP tool that its client polls for the result.
type Task struct {
	ID string `json:"id"`
	// Endpoint is the endpoint whose tool was called, as in MCPSession.
	Endpoint string `json:"endpoint"`
	Tool     string `json:"tool"`
	// Status is "working", "input_required", "completed", "failed" or "cancelled".
	Status string `json:"status"`
	// Message is what the tool says about its state.
	Message   string `json:"message"`
	Principal string `json:"principal"`
	// Execution is the id of the execution that the task waits for, nil if there is none.
	Execution *string `json:"execution"`
	Created   Time    `json:"created"`
	Updated   Time    `json:"updated"`
	// Expires is when the task may be removed, zero before the end. TTLMS is the time from Created to Expires.
	Expires Time   `json:"expires"`
	TTLMS   *int64 `json:"ttl_ms"`
	// CancelRequested is true once a request to cancel the task was made.
	CancelRequested bool `json:"cancel_requested"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// TaskList is one page of tasks, newest first. NextCursor is "" on the last page.
type TaskList struct {
	Tasks      []Task `json:"tasks"`
	NextCursor string `json:"next_cursor"`
}

// ListTasks returns one page of the tasks of MCP clients: the principal's own or, with the scope admin, of its
// tenant. limit and cursor are as with ListSessions.
func (c *Client) ListTasks(ctx context.Context, limit int, cursor string) (TaskList, error) {
	return answer[TaskList](ctx, c, &request{
		op: "list tasks", method: http.MethodGet, path: "/v1/tasks", query: listQuery(limit, cursor),
	})
}

// ShowTask returns a task.
func (c *Client) ShowTask(ctx context.Context, id string) (Task, error) {
	op := "show task " + id
	if err := checkName(op, id); err != nil {
		return Task{}, err
	}
	return answer[Task](ctx, c, &request{op: op, method: http.MethodGet, path: taskPath(id)})
}

// CancelTask asks the tool of a task to stop, and does not wait for it. It has no effect on a task that has ended.
func (c *Client) CancelTask(ctx context.Context, id string) error {
	op := "cancel task " + id
	if err := checkName(op, id); err != nil {
		return err
	}
	return c.call(ctx, &request{op: op, method: http.MethodPost, path: taskPath(id) + "/cancel"}, nil)
}

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

// Replica is one of the servers that share a store.
type Replica struct {
	ID string `json:"id"`
	// Self is true for the server that answered the request.
	Self bool `json:"self"`
	// Answers is false if the server has not said what it does; URL, Version, Started, Executions and Streams are then
	// nil or zero.
	Answers bool    `json:"answers"`
	URL     *string `json:"url"`
	Version *string `json:"version"`
	Started Time    `json:"started"`
	// Joined is when the server got its ID, and LastHeartbeat when a heartbeat was seen last. Both are zero for a
	// server that has its store alone.
	Joined        Time `json:"joined"`
	LastHeartbeat Time `json:"last_heartbeat"`
	// Executions counts those that the server runs.
	Executions *ReplicaExecutions `json:"executions"`
	// Streams is the number of streams that the server has in memory.
	Streams *int `json:"streams"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// ReplicaExecutions counts the executions that a server runs, and those that wait at it.
type ReplicaExecutions struct {
	Running int `json:"running"`
	Queued  int `json:"queued"`
}

// ReplicaList is one page of replicas, by ID. NextCursor is "" on the last page.
type ReplicaList struct {
	Replicas   []Replica `json:"replicas"`
	NextCursor string    `json:"next_cursor"`
}

// ListReplicas returns one page of the servers that share the store of the server. limit and cursor are as with
// ListSessions.
func (c *Client) ListReplicas(ctx context.Context, limit int, cursor string) (ReplicaList, error) {
	return answer[ReplicaList](ctx, c, &request{
		op: "list replicas", method: http.MethodGet, path: "/v1/replicas", query: listQuery(limit, cursor),
	})
}
