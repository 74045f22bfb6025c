package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"reprise/client"
	"reprise/internal/bytesize"
)

// showCmd shows the state of one thing.
type showCmd struct {
	connect `embed:""`
	newest  `embed:""`

	Stream  bool `short:"s" xor:"kind" env:"-" help:"NAME is a stream. This is assumed for a name with a slash."`
	Session bool `xor:"kind" env:"-" help:"NAME is a session."`
	MCP     bool `name:"mcp" xor:"kind" env:"-" help:"NAME is a session of an MCP client."`
	Task    bool `xor:"kind" env:"-" help:"NAME is a task of an MCP client."`
	JSON    bool `name:"json" help:"Print it as a line of JSON."`

	Name string `arg:"" optional:"" help:"Id of an execution, or name of a stream or session."`
}

// Run shows it.
func (c *showCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		c.Stream = c.Stream || !c.Session && isStreamName(c.Name)
		return c.show(ctx, server)
	})
}

// show prints the execution, stream or session called Name.
func (c *showCmd) show(ctx context.Context, server *client.Client) (err error) {
	var shown json.RawMessage
	var rows [][2]string
	switch {
	case c.Stream:
		var s client.Stream
		s, err = server.ShowStream(ctx, c.Name)
		shown, rows = s.Raw, streamRows(&s)
	case c.Session:
		var s client.Session
		s, err = server.ShowSession(ctx, c.Name)
		shown, rows = s.Raw, sessionRows(&s)
	case c.MCP:
		var s client.MCPSession
		s, err = server.ShowMCPSession(ctx, c.Name)
		shown, rows = s.Raw, mcpSessionRows(&s)
	case c.Task:
		var t client.Task
		t, err = server.ShowTask(ctx, c.Name)
		shown, rows = t.Raw, taskRows(&t)
	default:
		var x client.Execution
		x, err = server.Show(ctx, c.Name)
		if isStreamAlone(ctx, server, c.Name, err) {
			c.Stream = true
			return c.show(ctx, server)
		}
		shown, rows = x.Raw, executionRows(&x)
	}
	if err != nil {
		return err
	}
	return printRows(c.JSON, shown, rows)
}

// printRows prints one object: as the server has sent it, or the rows that have a value.
func printRows(asJSON bool, object json.RawMessage, rows [][2]string) error {
	if asJSON {
		return printObject(object)
	}
	t := newTable(stdout)
	for _, row := range rows {
		if row[1] != "" {
			t.row(row[0], row[1])
		}
	}
	return t.flush()
}

func executionRows(x *client.Execution) [][2]string {
	rows := [][2]string{
		{"id", x.ID},
		{"status", statusText(x)},
		{"waiting", waitingText(x)},
		{"error", x.Error},
		{"command", commandText(x)},
		{"directory", x.Cwd},
		{"session", x.Session},
		{"key", x.Key},
		{"labels", labelText(x.Labels)},
		{"created", moment(x.Created)},
		{"started", moment(x.Started)},
		{"ended", moment(x.Ended)},
	}
	if x.Expired {
		rows = append(rows, [2]string{"output", strings.TrimPrefix(expiredText(x), "output ")})
	} else {
		rows = append(rows, [2]string{
			"output", fmt.Sprintf("%v stdout, %v stderr", bytesize.Size(x.Bytes.Stdout), bytesize.Size(x.Bytes.Stderr)),
		}, [2]string{"events", windowText(x.Window)})
	}
	if x.DurationMS != nil {
		rows = append(rows, [2]string{"took", durationMS(*x.DurationMS).String()})
	}
	if x.Usage != nil {
		rows = append(rows, [2]string{"used", fmt.Sprintf("%v user, %v system, %v memory",
			durationMS(x.Usage.UserMS), durationMS(x.Usage.SystemMS), bytesize.Size(x.Usage.MaxRSSBytes))})
	}
	if x.Isolation != nil {
		rows = append(rows, [2]string{"isolation", isolationText(x.Isolation)})
	}
	return rows
}

// waitingText says what a command waits for, and what would help.
func waitingText(x *client.Execution) string {
	if x.Waiting == "" || x.WaitingSince.IsZero() {
		return ""
	}
	return fmt.Sprintf("for %s since %s: end or remove streams, or raise --max-total-bytes or the quota; "+
		"\"reprise cancel\" ends the command", x.Waiting, moment(x.WaitingSince))
}

// isolationText is the level with the layers that are in force.
func isolationText(in *client.Isolation) string {
	l := &in.Layers
	texts := []string{in.Level}
	if l.NoNewPrivileges {
		texts = append(texts, "no new privileges")
	}
	for _, layer := range [][2]string{
		{"capabilities", l.Capabilities},
		{"hidden by", l.Hidden},
		{"reading bound by", l.Readable},
		{"temporary directories by", l.Temporary},
		{"writing bound by", l.Writable},
		{"signals bound by", l.Signals},
		{"system calls", l.SystemCalls},
		{"cgroups", l.Cgroups},
		{"network", l.Network},
		{"user", l.User},
	} {
		if layer[1] != "" {
			texts = append(texts, layer[0]+" "+strings.ReplaceAll(layer[1], "_", " "))
		}
	}
	return strings.Join(texts, ", ")
}

func streamRows(s *client.Stream) [][2]string {
	status := s.Status
	if s.Outcome != "" {
		status += " " + string(s.Outcome)
	}
	return [][2]string{
		{"name", s.Name},
		{"status", status},
		{"labels", labelText(s.Labels)},
		{"created", moment(s.Created)},
		{"ended", moment(s.Ended)},
		{"events", strconv.FormatUint(s.Events, 10) + " kept, " + bytesize.Size(s.Bytes).String()},
		{"window", windowText(s.Window)},
	}
}

func sessionRows(s *client.Session) [][2]string {
	rows := [][2]string{
		{"session", s.ID},
		{"created", moment(s.Created)},
		{
			"executions",
			strconv.Itoa(s.Count) + ", " + strconv.Itoa(s.Running) + " running, " + strconv.Itoa(s.Queued) + " queued",
		},
	}
	for i := range s.Executions {
		x := &s.Executions[i]
		rows = append(rows, [2]string{"  " + x.ID, statusText(x) + "  " + clip(commandText(x), 60)})
	}
	return rows
}

func mcpSessionRows(s *client.MCPSession) [][2]string {
	return [][2]string{
		{"session", s.ID},
		{"endpoint", s.Endpoint},
		{"client", strings.TrimSpace(s.Client.Name + " " + s.Client.Version)},
		{"version", s.Version},
		{"principal", s.Principal},
		{"created", moment(s.Created)},
		{"last activity", moment(s.LastActivity)},
		{"streams", strconv.Itoa(s.Streams) + ", " + strconv.Itoa(s.Running) + " running"},
		{"kept", bytesize.Size(s.Bytes).String()},
	}
}

func labelText(labels map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, name+"="+labels[name])
	}
	return strings.Join(texts, " ")
}

// windowText shows the cursors that can be followed from.
func windowText(w client.Window) string { return "after " + w.Earliest + " to " + w.Tail }
