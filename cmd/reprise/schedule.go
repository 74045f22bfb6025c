package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"reprise/client"
)

// scheduleCmd makes, shows and changes schedules.
type scheduleCmd struct {
	Add     scheduleAddCmd     `cmd:"" help:"Run a command on the server at set times, and print the id of the schedule."`
	List    scheduleListCmd    `cmd:"" help:"List the schedules."`
	Show    scheduleShowCmd    `cmd:"" help:"Show a schedule and the results of its newest slots."`
	Disable scheduleDisableCmd `cmd:"" help:"Stop a schedule."`
	Enable  scheduleEnableCmd  `cmd:"" help:"Continue a schedule with its next slot."`
	Remove  scheduleRemoveCmd  `cmd:"" aliases:"rm" help:"Remove schedules. Commands that they have started are kept."`
}

// Help is shown below the usage.
func (*scheduleCmd) Help() string {
	return `A schedule starts one execution at each of its slots, even if several replicas share the store. The id of the execution consists of the id of the schedule and the time of the slot. Its label "schedule" is the id of the schedule, so that "reprise list" finds all executions of a schedule.`
}

// nextSlot says when a schedule starts something.
func nextSlot(s *client.Schedule) string {
	if s.Disabled != nil {
		return "disabled"
	}
	return moment(s.Next)
}

func scheduledProgram(s *client.Schedule) string {
	return cmp.Or(s.Execution.Command, s.Execution.Language, strings.Join(s.Execution.Argv, " "))
}

// scheduleAddCmd makes a schedule.
type scheduleAddCmd struct {
	connect `embed:""`

	Zone      string            `default:"UTC" placeholder:"ZONE" help:"Time zone of the line, for example Europe/Berlin. Default: ${default}."`
	Overlap   string            `enum:"skip,allow" default:"skip" placeholder:"RULE" help:"While an earlier execution runs: skip the slot, or allow another one. Default: ${default}."`
	Missed    string            `enum:"skip,once" default:"skip" placeholder:"RULE" help:"Slots that passed while no server ran: skip them, or start the newest one once. Default: ${default}."`
	Session   string            `placeholder:"ID" help:"Session that the executions belong to."`
	Label     map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Label to find them by. May be repeated."`
	Timeout   time.Duration     `placeholder:"DURATION" help:"End the command after this time."`
	Cwd       string            `placeholder:"DIR" help:"Working directory on the server. Default: the server's own."`
	Env       []string          `short:"e" sep:"none" placeholder:"NAME[=VALUE]" help:"Variable for the command; without a value, the local one. May be repeated."`
	Isolation string            `placeholder:"LEVEL" help:"Isolation of the command. Default: the server's."`
	retain    `embed:""`
	JSON      bool `name:"json" help:"Print the schedule as JSON."`

	Cron string   `arg:"" help:"A cron line in quotes, such as \"*/5 * * * *\", or @hourly, @daily, @every 90s and the like."`
	Argv []string `arg:"" passthrough:"" name:"command" help:"The command and its arguments, after \"--\"."`
}

// Run makes it.
func (c *scheduleAddCmd) Run(ctx context.Context, asked *stops) error {
	argv, err := commandLine(c.Argv)
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return usage("schedule add: a command is needed, behind --")
	}
	start := client.StartRequest{
		Argv: argv, Session: c.Session, Labels: c.Label, Cwd: c.Cwd, Timeout: client.Duration(c.Timeout),
		Isolation: c.Isolation, Retention: c.retention(), Env: map[string]string{},
	}
	for _, entry := range c.Env {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			value = os.Getenv(name)
		}
		start.Env[name] = value
	}
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		made, err := server.Schedules().Create(ctx, client.ScheduleRequest{
			Cron: c.Cron, Zone: c.Zone, Overlap: c.Overlap, Missed: c.Missed, Execution: start,
		})
		if err != nil {
			return err
		}
		if c.JSON {
			return printObject(made.Raw)
		}
		_, err = fmt.Fprintln(stdout, made.ID)
		return err
	})
}

// scheduleListCmd lists the schedules.
type scheduleListCmd struct {
	connect `embed:""`

	JSON bool `name:"json" help:"Print lines of JSON."`
}

// Run lists them.
func (c *scheduleListCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		list, err := server.Schedules().List(ctx)
		return showAll(c.JSON, list, err, func(s client.Schedule) (json.RawMessage, []string) {
			return s.Raw, []string{s.ID, s.Cron, s.Zone, nextSlot(&s), clip(scheduledProgram(&s), 60)}
		}, "ID", "CRON", "ZONE", "NEXT", "COMMAND")
	})
}

// scheduleShowCmd shows a schedule.
type scheduleShowCmd struct {
	connect `embed:""`

	JSON bool   `name:"json" help:"Print it as JSON."`
	ID   string `arg:"" help:"Id of the schedule."`
}

// Run shows it.
func (c *scheduleShowCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		s, err := server.Schedules().Show(ctx, c.ID)
		if err != nil {
			return err
		}
		rows := [][2]string{
			{"schedule", s.ID},
			{"cron", s.Cron},
			{"zone", s.Zone},
			{"command", scheduledProgram(&s)},
			{"overlap", s.Overlap},
			{"missed", s.Missed},
			{"next", nextSlot(&s)},
		}
		if s.Disabled != nil {
			rows = append(rows, [2]string{"reason", s.Disabled.Reason})
		}
		for _, slot := range s.Slots {
			text := slot.Outcome
			if slot.Count > 1 {
				text = strconv.Itoa(slot.Count) + " " + text
			}
			text = strings.Join([]string{text, slot.Execution, slot.Error}, " ")
			rows = append(rows, [2]string{moment(slot.At), text})
		}
		return printRows(c.JSON, s.Raw, rows)
	})
}

// scheduleDisableCmd stops a schedule.
type scheduleDisableCmd struct {
	connect `embed:""`

	ID string `arg:"" help:"Id of the schedule."`
}

// Run stops it.
func (c *scheduleDisableCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		_, err := server.Schedules().Disable(ctx, c.ID)
		return err
	})
}

// scheduleEnableCmd lets a schedule go on.
type scheduleEnableCmd struct {
	connect `embed:""`

	ID string `arg:"" help:"Id of the schedule."`
}

// Run does that.
func (c *scheduleEnableCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		_, err := server.Schedules().Enable(ctx, c.ID)
		return err
	})
}

// scheduleRemoveCmd removes schedules.
type scheduleRemoveCmd struct {
	connect `embed:""`

	IDs []string `arg:"" name:"id" help:"Ids of the schedules."`
}

// Run removes them, as many as it can.
func (c *scheduleRemoveCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		return each(c.IDs, func(id string) error { return server.Schedules().Remove(ctx, id) })
	})
}
