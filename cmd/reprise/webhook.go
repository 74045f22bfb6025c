package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

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

// webhookShown is a webhook as the server shows it.
type webhookShown struct {
	ID       string    `json:"id"`
	URL      string    `json:"url"`
	Source   string    `json:"source"`
	Stream   string    `json:"stream"`
	Prefix   string    `json:"prefix"`
	Types    []string  `json:"types"`
	Created  time.Time `json:"created"`
	Secret   string    `json:"secret"`
	Disabled *struct {
		Reason string `json:"reason"`
	} `json:"disabled"`
	Progress struct {
		Queued  uint64     `json:"queued"`
		Sent    uint64     `json:"sent"`
		Dropped uint64     `json:"dropped"`
		Failing *time.Time `json:"failing"`
		Error   string     `json:"error"`
	} `json:"progress"`

	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *webhookShown) UnmarshalJSON(text []byte) error {
	type plain webhookShown
	w.raw = append(json.RawMessage{}, text...)
	return json.Unmarshal(text, (*plain)(w))
}

func (w *webhookShown) state() string {
	if w.Disabled != nil {
		return "disabled"
	}
	return "good"
}

// about says what a webhook tells of.
func (w *webhookShown) about() string {
	switch {
	case w.Stream != "":
		return w.Stream
	case w.Prefix != "":
		return w.Source + " " + w.Prefix + "*"
	}
	return w.Source
}

// showSecret prints a secret that was made: alone on stdout, for programs.
func (w *webhookShown) showSecret(asJSON bool) error {
	if asJSON {
		return printObject(w.raw)
	}
	fmt.Fprintf(os.Stderr, "webhook %s, whose secret is not shown again:\n", w.ID)
	_, err := fmt.Fprintln(stdout, w.Secret)
	return err
}

// askWebhooks sends a request below /v1/webhooks and reads the JSON of the answer into out, if that is not nil.
func askWebhooks(ctx context.Context, server *client.Client, method, path string, body, out any) error {
	return askJSON(ctx, server, method, "/v1/webhooks"+path, body, out)
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
	ctx, release := asked.context(ctx)
	defer release()
	body := map[string]any{"url": c.Receiver}
	if c.Stream != "" || c.Streams {
		body["source"] = "streams"
	}
	for name, text := range map[string]string{"stream": c.Stream, "prefix": c.Prefix} {
		if text != "" {
			body[name] = text
		}
	}
	if len(c.Types) > 0 {
		body["types"] = c.Types
	}
	if c.SecretFile != "" {
		text, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return &exit{code: exitUsage, err: err}
		}
		body["secret"] = strings.TrimSpace(string(text))
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	var made webhookShown
	if err := askWebhooks(ctx, server, http.MethodPost, "", body, &made); err != nil {
		return err
	}
	return made.showSecret(c.JSON)
}

// webhookListCmd lists the webhooks.
type webhookListCmd struct {
	connect `embed:""`

	JSON bool `name:"json" help:"Print lines of JSON."`
}

// Run lists them.
func (c *webhookListCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	var answer struct {
		Webhooks []webhookShown `json:"webhooks"`
	}
	if err := askWebhooks(ctx, server, http.MethodGet, "", nil, &answer); err != nil {
		return err
	}
	t := newTable(stdout, "ID", "STATE", "ABOUT", "CREATED", "URL")
	for i := range answer.Webhooks {
		w := &answer.Webhooks[i]
		if c.JSON {
			if err := printObject(w.raw); err != nil {
				return err
			}
			continue
		}
		t.row(w.ID, w.state(), w.about(), moment(w.Created), w.URL)
	}
	return t.flush()
}

// webhookShowCmd shows a webhook.
type webhookShowCmd struct {
	connect `embed:""`

	JSON bool   `name:"json" help:"Print it as JSON."`
	ID   string `arg:"" help:"Id of the webhook."`
}

// Run shows it.
func (c *webhookShowCmd) Run(ctx context.Context, asked *stops) error {
	return c.ask(ctx, asked, http.MethodGet, c.ID, "", func(w *webhookShown) error {
		if c.JSON {
			return printObject(w.raw)
		}
		t := newTable(stdout)
		t.row("webhook", w.ID)
		t.row("url", w.URL)
		t.row("about", w.about())
		if len(w.Types) > 0 {
			t.row("types", strings.Join(w.Types, " "))
		}
		t.row("state", w.state())
		if w.Disabled != nil {
			t.row("reason", w.Disabled.Reason)
		}
		t.row("created", moment(w.Created))
		p := &w.Progress
		t.row("sent", strconv.FormatUint(p.Sent, 10)+" of "+strconv.FormatUint(p.Queued, 10))
		if p.Dropped > 0 {
			t.row("dropped", strconv.FormatUint(p.Dropped, 10))
		}
		if p.Failing != nil {
			t.row("failing", "since "+moment(*p.Failing)+": "+p.Error)
		}
		return t.flush()
	})
}

// ask sends a request about one webhook and hands over the answer.
func (c *connect) ask(ctx context.Context, asked *stops, method, id, act string, then func(*webhookShown) error) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	var w webhookShown
	if err := askWebhooks(ctx, server, method, "/"+url.PathEscape(id)+act, nil, &w); err != nil {
		return err
	}
	return then(&w)
}

// webhookRotateCmd gives a webhook another secret.
type webhookRotateCmd struct {
	connect `embed:""`

	JSON bool   `name:"json" help:"Print the webhook as JSON, with its secret."`
	ID   string `arg:"" help:"Id of the webhook."`
}

// Run does that.
func (c *webhookRotateCmd) Run(ctx context.Context, asked *stops) error {
	return c.ask(ctx, asked, http.MethodPost, c.ID, "/rotate", func(w *webhookShown) error {
		return w.showSecret(c.JSON)
	})
}

// webhookEnableCmd lets a webhook go on.
type webhookEnableCmd struct {
	connect `embed:""`

	ID string `arg:"" help:"Id of the webhook."`
}

// Run does that.
func (c *webhookEnableCmd) Run(ctx context.Context, asked *stops) error {
	return c.ask(ctx, asked, http.MethodPost, c.ID, "/enable", func(*webhookShown) error { return nil })
}

// webhookTestCmd sends a message once.
type webhookTestCmd struct {
	connect `embed:""`

	ID string `arg:"" help:"Id of the webhook."`
}

// Run sends it.
func (c *webhookTestCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	var answer struct {
		Status int    `json:"status"`
		Error  string `json:"error"`
	}
	err = askWebhooks(ctx, server, http.MethodPost, "/"+url.PathEscape(c.ID)+"/test", nil, &answer)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "the receiver answered with", answer.Status)
	return err
}

// webhookRemoveCmd removes webhooks.
type webhookRemoveCmd struct {
	connect `embed:""`

	IDs []string `arg:"" name:"id" help:"Ids of the webhooks."`
}

// Run removes them, as many as it can.
func (c *webhookRemoveCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range c.IDs {
		errs = append(errs, askWebhooks(ctx, server, http.MethodDelete, "/"+url.PathEscape(id), nil, nil))
	}
	return errors.Join(errs...)
}
