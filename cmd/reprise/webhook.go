package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"reprise/client"
)

// webhookCmd makes, shows and changes webhooks.
type webhookCmd struct {
	Add    webhookAddCmd    `cmd:"" help:"Make a webhook and print its secret, which is not shown again."`
	List   webhookListCmd   `cmd:"" help:"List the webhooks."`
	Show   webhookShowCmd   `cmd:"" help:"Show a webhook and its progress."`
	Rotate webhookRotateCmd `cmd:"" help:"Replace the secret of a webhook, and print the new one; the old one also signs for a day."`
	Enable webhookEnableCmd `cmd:"" help:"Enable a disabled webhook, which continues where it stopped."`
	Test   webhookTestCmd   `cmd:"" help:"Send a test message to the receiver, and print the result."`
	Remove webhookRemoveCmd `cmd:"" aliases:"rm" help:"Remove webhooks and their unsent messages."`
}

// Help is shown below the usage.
func (*webhookCmd) Help() string {
	return `The server sends a signed POST at the end of each execution, or for each event of streams, until the receiver answers with 2xx. Requests have the headers of Standard Webhooks, so the libraries of that project verify them. The id in webhook-id is the same for each attempt.`
}

func webhookState(w *client.Webhook) string {
	if w.Disabled != nil {
		return "disabled"
	}
	return "good"
}

// webhookAbout says what a webhook reports.
func webhookAbout(w *client.Webhook) string {
	switch {
	case w.Stream != "":
		return w.Stream
	case w.Prefix != "":
		return w.Source + " " + w.Prefix + "*"
	}
	return w.Source
}

// showSecret prints a secret that was made: alone on stdout, for programs.
func showSecret(asJSON bool, w client.Webhook, err error) error {
	if err != nil {
		return err
	}
	if asJSON {
		return printObject(w.Raw)
	}
	fmt.Fprintf(os.Stderr, "webhook %s, whose secret is not shown again:\n", w.ID)
	_, err = fmt.Fprintln(stdout, w.Secret)
	return err
}

// webhookAddCmd makes a webhook.
type webhookAddCmd struct {
	connect `embed:""`

	Stream     string   `short:"s" placeholder:"NAME" help:"Send the events of this stream."`
	Streams    bool     `help:"Send the events of all streams, or of those whose name begins with --prefix. Default: the ends of executions."`
	Prefix     string   `placeholder:"TEXT" help:"Only executions whose session begins with this prefix, or with --streams, streams whose name does."`
	Types      []string `placeholder:"TYPE,..." help:"Only events of these types, with --stream or --streams."`
	SecretFile string   `placeholder:"FILE" help:"File with the secret to sign with. Default: the server makes one."`
	JSON       bool     `name:"json" help:"Print the webhook as JSON, with its secret."`

	Receiver string `arg:"" help:"Where to send: an https:// URL."`
}

// Run makes it.
func (c *webhookAddCmd) Run(ctx context.Context, asked *stops) error {
	q := client.WebhookRequest{URL: c.Receiver, Stream: c.Stream, Prefix: c.Prefix, Types: c.Types}
	if c.Stream != "" || c.Streams {
		q.Source = "streams"
	}
	if c.SecretFile != "" {
		text, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return &exit{code: exitUsage, err: err}
		}
		q.Secret = strings.TrimSpace(string(text))
	}
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		made, err := server.Webhooks().Create(ctx, q)
		return showSecret(c.JSON, made, err)
	})
}

// webhookListCmd lists the webhooks.
type webhookListCmd struct {
	connect `embed:""`

	JSON bool `name:"json" help:"Print lines of JSON."`
}

// Run lists them.
func (c *webhookListCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		list, err := server.Webhooks().List(ctx)
		return showAll(c.JSON, list, err, func(w client.Webhook) (json.RawMessage, []string) {
			return w.Raw, []string{w.ID, webhookState(&w), webhookAbout(&w), moment(w.Created), w.URL}
		}, "ID", "STATE", "ABOUT", "CREATED", "URL")
	})
}

// webhookShowCmd shows a webhook.
type webhookShowCmd struct {
	connect `embed:""`

	JSON bool   `name:"json" help:"Print it as JSON."`
	ID   string `arg:"" help:"Id of the webhook."`
}

// Run shows it.
func (c *webhookShowCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		w, err := server.Webhooks().Show(ctx, c.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return printObject(w.Raw)
		}
		t := newTable(stdout)
		t.row("webhook", w.ID)
		t.row("url", w.URL)
		t.row("about", webhookAbout(&w))
		if len(w.Types) > 0 {
			t.row("types", strings.Join(w.Types, " "))
		}
		t.row("state", webhookState(&w))
		if w.Disabled != nil {
			t.row("reason", w.Disabled.Reason)
		}
		t.row("created", moment(w.Created))
		p := w.Progress
		if p == nil {
			p = &client.WebhookProgress{}
		}
		t.row("sent", strconv.FormatUint(p.Sent, 10)+" of "+strconv.FormatUint(p.Queued, 10))
		if p.Dropped > 0 {
			t.row("dropped", strconv.FormatUint(p.Dropped, 10))
		}
		if !p.Failing.IsZero() {
			t.row("failing", "since "+moment(p.Failing)+": "+p.Error)
		}
		return t.flush()
	})
}

// webhookRotateCmd gives a webhook another secret.
type webhookRotateCmd struct {
	connect `embed:""`

	JSON bool   `name:"json" help:"Print the webhook as JSON, with its secret."`
	ID   string `arg:"" help:"Id of the webhook."`
}

// Run does that.
func (c *webhookRotateCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		w, err := server.Webhooks().Rotate(ctx, c.ID)
		return showSecret(c.JSON, w, err)
	})
}

// webhookEnableCmd lets a webhook go on.
type webhookEnableCmd struct {
	connect `embed:""`

	ID string `arg:"" help:"Id of the webhook."`
}

// Run does that.
func (c *webhookEnableCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		_, err := server.Webhooks().Enable(ctx, c.ID)
		return err
	})
}

// webhookTestCmd sends a message once.
type webhookTestCmd struct {
	connect `embed:""`

	ID string `arg:"" help:"Id of the webhook."`
}

// Run sends it.
func (c *webhookTestCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		answer, err := server.Webhooks().Test(ctx, c.ID)
		if err == nil && answer.Error != "" {
			err = errors.New(answer.Error)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, "the receiver answered with", answer.Status)
		return err
	})
}

// webhookRemoveCmd removes webhooks.
type webhookRemoveCmd struct {
	connect `embed:""`

	IDs []string `arg:"" name:"id" help:"Ids of the webhooks."`
}

// Run removes them, as many as it can.
func (c *webhookRemoveCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		return each(c.IDs, func(id string) error { return server.Webhooks().Remove(ctx, id) })
	})
}
