package main

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"strconv"

	"reprise/client"
	"reprise/cmd/reprise/internal/pages"
	"reprise/internal/bytesize"
)

// This file has the lists of what an operator looks for: calls and tasks of MCP clients, and replicas.

func (c *listCmd) mcpCalls(ctx context.Context, server *client.Client) iter.Seq2[client.MCPCall, error] {
	return pages.All(func(limit int, cursor string) ([]client.MCPCall, string, error) {
		page, err := server.ListMCPCalls(ctx, c.Calls, limit, cursor)
		return page.Calls, page.NextCursor, err
	}, c.Limit)
}

func mcpCallRow(call client.MCPCall) (json.RawMessage, []string) {
	took := "-"
	if !call.Ended.IsZero() {
		took = durationMS(call.Ended.Sub(call.Created.Time).Milliseconds()).String()
	}
	return call.Raw, []string{
		call.ID, call.Method, clip(call.Name, 40), call.Status, took, strconv.FormatUint(call.Events, 10),
		bytesize.Size(call.Bytes).String(), moment(call.Created),
	}
}

func (c *listCmd) tasks(ctx context.Context, server *client.Client) iter.Seq2[client.Task, error] {
	return pages.All(func(limit int, cursor string) ([]client.Task, string, error) {
		page, err := server.ListTasks(ctx, limit, cursor)
		return page.Tasks, page.NextCursor, err
	}, c.Limit)
}

func taskRow(t client.Task) (json.RawMessage, []string) {
	return t.Raw, []string{
		t.ID, t.Endpoint, clip(t.Tool, 40), t.Status, textOr(t.Execution, "-"), cmp.Or(t.Principal, "-"),
		moment(t.Updated), moment(t.Created),
	}
}

// textOr returns the text, or another one for nil.
func textOr(text *string, other string) string {
	if text == nil {
		return other
	}
	return *text
}

func taskRows(t *client.Task) [][2]string {
	rows := [][2]string{
		{"task", t.ID},
		{"endpoint", t.Endpoint},
		{"tool", t.Tool},
		{"status", t.Status},
		{"message", t.Message},
		{"principal", t.Principal},
		{"execution", textOr(t.Execution, "")},
		{"created", moment(t.Created)},
		{"updated", moment(t.Updated)},
	}
	if !t.Expires.IsZero() {
		rows = append(rows, [2]string{"expires", moment(t.Expires)})
	} else if t.CancelRequested {
		rows = append(rows, [2]string{"cancel", "requested"})
	}
	return rows
}

func (c *listCmd) replicas(ctx context.Context, server *client.Client) iter.Seq2[client.Replica, error] {
	return pages.All(func(limit int, cursor string) ([]client.Replica, string, error) {
		page, err := server.ListReplicas(ctx, limit, cursor)
		return page.Replicas, page.NextCursor, err
	}, c.Limit)
}

func replicaRow(r client.Replica) (json.RawMessage, []string) {
	running, queued, streams := "-", "-", "-"
	if r.Executions != nil {
		running, queued = strconv.Itoa(r.Executions.Running), strconv.Itoa(r.Executions.Queued)
	}
	if r.Streams != nil {
		streams = strconv.Itoa(*r.Streams)
	}
	return r.Raw, []string{
		r.ID, textOr(r.URL, "-"), textOr(r.Version, "no answer"), running, queued, streams, moment(r.LastHeartbeat),
		moment(r.Started),
	}
}
