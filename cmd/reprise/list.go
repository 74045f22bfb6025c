package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"

	"reprise/client"
	"reprise/cmd/reprise/internal/pages"
	"reprise/internal/bytesize"
)

// listCmd lists executions or other things.
type listCmd struct {
	connect `embed:""`

	Streams  bool              `xor:"kind" env:"-" help:"List streams instead of executions."`
	Sessions bool              `xor:"kind" env:"-" help:"List sessions instead of executions."`
	MCP      bool              `name:"mcp" xor:"kind" env:"-" help:"List the sessions of MCP clients instead of executions."`
	Calls    string            `xor:"kind" env:"-" placeholder:"ID" help:"List the kept calls of a session of an MCP client instead of executions."`
	Tasks    bool              `xor:"kind" env:"-" help:"List the tasks of MCP clients instead of executions."`
	Replicas bool              `xor:"kind" env:"-" help:"List the servers that share the store instead of executions."`
	Session  string            `placeholder:"ID" help:"Only executions of this session."`
	Status   string            `enum:",queued,running,ended" default:"" placeholder:"STATUS" help:"Only executions that are queued, running or ended."`
	Label    map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Only executions with this label. May be repeated."`
	Limit    int               `default:"100" placeholder:"N" help:"Maximum number; 0 for all. Default: ${default}."`
	Quiet    bool              `short:"q" help:"Do not report that the list is incomplete or empty."`
	JSON     bool              `name:"json" help:"Print each as a line of JSON."`
}

// Run lists.
func (c *listCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	switch {
	case err != nil:
		return err
	case c.Limit < 0:
		return usage("--limit %d: a number from 1, or 0 for all", c.Limit)
	case c.Streams:
		return show(c, c.streams(ctx, server), streamRow, "NAME", "STATUS", "EVENTS", "BYTES", "CREATED")
	case c.Sessions:
		return show(c, c.sessions(ctx, server), sessionRow, "SESSION", "EXECUTIONS",
			"RUNNING", "QUEUED", "UPDATED")
	case c.MCP:
		heading := []string{
			"MCP SESSION", "ENDPOINT", "CLIENT", "VERSION", "STREAMS", "BYTES", "LAST ACTIVITY", "CREATED",
		}
		return show(c, c.mcpSessions(ctx, server), mcpSessionRow, heading...)
	case c.Calls != "":
		heading := []string{"CALL", "METHOD", "NAME", "STATUS", "TOOK", "EVENTS", "BYTES", "CREATED"}
		return show(c, c.mcpCalls(ctx, server), mcpCallRow, heading...)
	case c.Tasks:
		heading := []string{"TASK", "ENDPOINT", "TOOL", "STATUS", "EXECUTION", "PRINCIPAL", "UPDATED", "CREATED"}
		return show(c, c.tasks(ctx, server), taskRow, heading...)
	case c.Replicas:
		heading := []string{"REPLICA", "URL", "VERSION", "RUNNING", "QUEUED", "STREAMS", "HEARTBEAT", "STARTED"}
		return show(c, c.replicas(ctx, server), replicaRow, heading...)
	}
	return show(c, c.executions(ctx, server), executionRow, "ID", "STATUS", "STARTED", "TOOK", "COMMAND")
}

// rowOf returns an item of a list as the server has sent it, and as the cells of a row.
type rowOf[T any] func(item T) (object json.RawMessage, cells []string)

// show prints the items of a list: as rows, or as the objects that the server has sent.
func show[T any](c *listCmd, all iter.Seq2[T, error], row rowOf[T], heading ...string) error {
	t := newTable(stdout, heading...)
	n, more := 0, false
	for v, err := range all {
		if err != nil {
			return err
		}
		if more = c.Limit > 0 && n == c.Limit; more {
			break
		}
		n++
		object, cells := row(v)
		if c.JSON {
			err = printObject(object)
		} else {
			t.row(cells...)
		}
		if err != nil {
			return err
		}
	}
	var err error
	if !c.JSON && (n > 0 || !c.Quiet) {
		err = t.flush()
	}
	if more && !c.Quiet {
		fmt.Fprintf(os.Stderr, "reprise: there are more than these %d; --limit 0 lists all\n", n)
	}
	return err
}

// showAll is show for a list that comes as a whole.
func showAll[T any](asJSON bool, list []T, err error, row rowOf[T], heading ...string) error {
	if err != nil {
		return err
	}
	return show(&listCmd{JSON: asJSON}, func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}, row, heading...)
}

func (c *listCmd) executions(ctx context.Context, server *client.Client) iter.Seq2[client.Execution, error] {
	return pages.All(func(limit int, cursor string) ([]client.Execution, string, error) {
		page, err := server.List(ctx, client.ExecutionQuery{
			Session: c.Session, Status: c.Status, Labels: c.Label, Limit: limit, Cursor: cursor,
		})
		return page.Executions, page.NextCursor, err
	}, c.Limit)
}

func (c *listCmd) streams(ctx context.Context, server *client.Client) iter.Seq2[client.Stream, error] {
	return pages.All(func(limit int, cursor string) ([]client.Stream, string, error) {
		page, err := server.ListStreams(ctx, limit, cursor)
		return page.Streams, page.NextCursor, err
	}, c.Limit)
}

func (c *listCmd) sessions(ctx context.Context, server *client.Client) iter.Seq2[client.Session, error] {
	return pages.All(func(limit int, cursor string) ([]client.Session, string, error) {
		page, err := server.ListSessions(ctx, limit, cursor)
		return page.Sessions, page.NextCursor, err
	}, c.Limit)
}

func (c *listCmd) mcpSessions(ctx context.Context, server *client.Client) iter.Seq2[client.MCPSession, error] {
	return pages.All(func(limit int, cursor string) ([]client.MCPSession, string, error) {
		page, err := server.ListMCPSessions(ctx, limit, cursor)
		return page.Sessions, page.NextCursor, err
	}, c.Limit)
}

func mcpSessionRow(s client.MCPSession) (json.RawMessage, []string) {
	return s.Raw, []string{
		s.ID, s.Endpoint, clip(strings.TrimSpace(s.Client.Name+" "+s.Client.Version), 40), s.Version,
		strconv.Itoa(s.Streams), bytesize.Size(s.Bytes).String(), moment(s.LastActivity), moment(s.Created),
	}
}

func executionRow(x client.Execution) (json.RawMessage, []string) {
	took := "-"
	if x.DurationMS != nil {
		took = durationMS(*x.DurationMS).String()
	}
	what := clip(cmp.Or(commandText(&x), expiredText(&x)), 60)
	return x.Raw, []string{x.ID, statusText(&x), moment(x.Started), took, what}
}

func streamRow(s client.Stream) (json.RawMessage, []string) {
	status := s.Status
	if s.Outcome != "" {
		status = string(s.Outcome)
	}
	return s.Raw, []string{
		s.Name, status, strconv.FormatUint(s.Events, 10), bytesize.Size(s.Bytes).String(), moment(s.Created),
	}
}

func sessionRow(s client.Session) (json.RawMessage, []string) {
	return s.Raw, []string{
		s.ID, strconv.Itoa(s.Count), strconv.Itoa(s.Running), strconv.Itoa(s.Queued), moment(s.Updated),
	}
}

// statusText is the status of an execution in a few words.
func statusText(x *client.Execution) string {
	switch {
	case x.Outcome == "":
		return x.Status
	case x.Outcome == client.Exited && x.ExitCode != nil:
		return "exited " + strconv.Itoa(*x.ExitCode)
	case x.Signal != nil:
		return string(x.Outcome) + " " + *x.Signal
	}
	return string(x.Outcome)
}

// commandText is what an execution runs, on one line.
func commandText(x *client.Execution) string {
	switch {
	case x.Command != "":
		return x.Command
	case x.Interpreter != "":
		return "code in " + x.Interpreter
	case x.Language != "":
		return x.Language + " code"
	}
	return strings.Join(x.Argv, " ")
}
