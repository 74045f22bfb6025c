package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
	"reprise/internal/audit"
)

// auditCmd reads the audit log of a server.
type auditCmd struct {
	Server connect `embed:""`

	Follow bool   `help:"Wait for new records and print them."`
	After  string `placeholder:"CURSOR" help:"Begin after this position: a cursor as --json prints it, earliest or tail. Default: earliest."`
	JSON   bool   `name:"json" help:"Print lines of JSON."`
	Check  bool   `help:"Check for changed or removed records, and exit 1 if there are any."`
}

// Help is shown below the usage.
func (*auditCmd) Help() string {
	return `The server must have been started with --audit. The token of the server may read the audit log, and so may a key with the scope audit.`
}

// Run reads it.
func (c *auditCmd) Run(ctx context.Context, asked *stops) error {
	server, err := c.Server.client()
	if err != nil {
		return err
	}
	ctx, release := asked.context(ctx)
	defer release()
	if c.Check {
		return c.check(ctx, server)
	}
	opts := &client.PageOptions{After: c.After, Limit: 1000}
	if c.Follow {
		opts.Wait = 30 * time.Second
	}
	for {
		page, err := server.PageAudit(ctx, opts)
		if err != nil {
			return err
		}
		for i := range page.Events {
			if err := c.print(&page.Events[i]); err != nil {
				return err
			}
		}
		opts.After = page.NextCursor
		if !page.HasMore && !c.Follow {
			return nil
		}
	}
}

func (c *auditCmd) print(e *client.Event) error {
	missed := uint64(0)
	var data json.RawMessage
	if e.Gap != nil {
		missed = e.Gap.Missed
	} else {
		data = e.Data
	}
	if c.JSON {
		return printObject(struct {
			Cursor string          `json:"cursor"`
			Type   string          `json:"type"`
			Data   json.RawMessage `json:"data"`
			Missed uint64          `json:"missed,omitempty"`
		}{e.Cursor, e.Type, data, missed})
	}
	if e.Type != audit.EventType {
		_, err := fmt.Fprintf(stdout, "%s: %d records are no longer kept\n", e.Type, missed)
		return err
	}
	var entry client.AuditRecord
	if err := json.Unmarshal(e.Data, &entry); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	words := []string{
		entry.Time.Local().Format(time.DateTime), orNone(entry.Principal), orNone(string(entry.Tenant)), entry.Act,
	}
	if entry.Object != "" {
		words = append(words, entry.Object)
	}
	if entry.Result != "" {
		words = append(words, fmt.Sprintf("refused: %s, %d times", entry.Result, entry.Count))
	}
	if entry.Remote != "" {
		words = append(words, "from "+entry.Remote)
	}
	_, err := fmt.Fprintln(stdout, printable.Line(strings.Join(words, "  ")))
	return err
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// errAuditChanged is why a check of the audit log fails.
var errAuditChanged = errors.New("the audit log was changed")

func (c *auditCmd) check(ctx context.Context, server *client.Client) error {
	found, err := server.CheckAudit(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := printObject(&found); err != nil {
			return err
		}
	} else {
		for _, wrong := range found.Wrong {
			fmt.Fprintln(stdout, printable.Line(wrong))
		}
		fmt.Fprintf(stdout, "%d records of %d writers, from number %d on, %d things wrong\n",
			found.Records, found.Writers, found.First, len(found.Wrong))
	}
	if len(found.Wrong) > 0 {
		return errAuditChanged
	}
	return nil
}
