package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"reprise"
	"reprise/client"
	"reprise/cmd/reprise/internal/readahead"
	"reprise/internal/bytesize"
)

// publishCmd publishes to a stream.
type publishCmd struct {
	connect `embed:""`
	named   `embed:""`

	Type  string            `placeholder:"TYPE" help:"Type of the events. Default: message."`
	As    string            `name:"content-type" enum:",application/x-ndjson,text/plain" default:"" env:"-" placeholder:"TYPE" help:"What the lines are: application/x-ndjson for a JSON value each, or text/plain. Default: a line that is a JSON object or array is published as JSON, any other as text."`
	Key   string            `placeholder:"KEY" help:"Publish all lines in one request, at most once: a later publish of the same lines under this key appends nothing. 1 to 255 bytes. The server remembers it for 24 hours."`
	JSON  bool              `name:"json" help:"Print the seqs of the lines as they are kept: {\"first\":1,\"last\":3,...}."`
	Label map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Label for the stream if it is created. May be repeated."`
	retain
	MaxIdle    time.Duration `placeholder:"DURATION" help:"How long the stream may be open without new events before the server ends it. Default: the server's."`
	MaxAgeEach time.Duration `placeholder:"DURATION" help:"How old each event may become while the stream is open. Default: no bound."`

	Stream string `arg:"" help:"Name of the stream."`

	asJSON, asText int // lines so far
}

// Help is shown below the usage.
func (*publishCmd) Help() string {
	return `Each line is published as soon as it is read, exactly once, even if the connection is lost. All lines share one request, and lines in quick succession are committed together. A line that is not UTF-8 is published as bytes. Without --content-type, a last line on stderr says how many lines were taken as JSON, if there were any.`
}

const (
	// maxLine is the size limit of a line, which is the server's limit on events.
	maxLine = 1 << 20
	// maxTextLine is the size limit of a line that is published as text: an event may have 1 MiB of JSON, where a byte
	// takes up to six.
	maxTextLine = 64 << 10
)

// The content types of lines.
const (
	linesOfJSON = "application/x-ndjson"
	linesOfText = "text/plain"
)

// Run publishes until the end of stdin.
func (c *publishCmd) Run(ctx context.Context, asked *stops) error {
	defer c.sayWhich()
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		if err := c.create(ctx, server); err != nil {
			return err
		}
		tooLong := fmt.Errorf("a line of more than %v", bytesize.Size(maxLine))
		read, failed := readahead.Lines(ctx, os.Stdin, maxLine, tooLong)
		if c.Key != "" {
			return c.publishOnce(ctx, server, read, failed)
		}
		p := &linePublisher{cmd: c, producer: server.Producer(c.Stream)}
		for line := range read {
			if err := p.publish(ctx, line); err != nil {
				return errors.Join(err, p.close())
			}
		}
		if err := p.close(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return <-failed
	})
}

// publishOnce publishes all lines in one request under the key.
func (c *publishCmd) publishOnce(
	ctx context.Context, server *client.Client, lines <-chan []byte, failed <-chan error,
) error {
	var events []client.NewEvent
	size := 0
	for line := range lines {
		if c.As != linesOfJSON && !utf8.Valid(line) {
			return usage("a line that is not UTF-8 does not go under a --key: nothing was published")
		}
		event, err := c.event(line)
		if err != nil {
			return err
		}
		if size += len(line); size > maxLine {
			return usage("more than %v of lines do not go under one --key: nothing was published",
				bytesize.Size(maxLine))
		}
		events = append(events, event)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := <-failed; err != nil || len(events) == 0 {
		return err
	}
	published, err := server.PublishOnce(ctx, c.Stream, c.Key, events...)
	if err != nil || !c.JSON {
		return err
	}
	return printObject(published)
}

// linePublisher publishes lines in order over a continuous request. Lines that are large or not text are sent
// separately, as bytes.
type linePublisher struct {
	cmd      *publishCmd
	producer *client.Producer
	stream   *client.PublishStream // nil while there is no continuous request

	mu     sync.Mutex
	failed error // error of printing acknowledgements
}

func (p *linePublisher) publish(ctx context.Context, line []byte) error {
	if !p.cmd.isJSON(line) && (len(line) > maxTextLine || !utf8.Valid(line)) {
		if err := p.close(); err != nil {
			return err
		}
		published, err := p.producer.PublishBytes(ctx, p.cmd.Type, line)
		if err == nil {
			p.acknowledge(published)
		}
		return errors.Join(err, p.printed())
	}
	event, err := p.cmd.event(line)
	if err != nil {
		return err
	}
	if p.stream == nil {
		p.stream, err = p.producer.Stream(ctx, &client.PublishStreamOptions{Acknowledged: p.acknowledge})
		if err != nil {
			return err
		}
	}
	if err := p.stream.Publish(event); err != nil {
		return p.close() // returns the reason, once
	}
	return p.printed()
}

// close ends the continuous request, if there is one, after all of its lines were stored.
func (p *linePublisher) close() error {
	if p.stream == nil {
		return nil
	}
	_, err := p.stream.Close()
	p.stream = nil
	return errors.Join(err, p.printed())
}

// acknowledge prints the results of lines.
func (p *linePublisher) acknowledge(published client.Published) {
	if !p.cmd.JSON {
		return
	}
	err := printObject(published)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = cmp.Or(p.failed, err)
}

// printed returns the error of printing an acknowledgement.
func (p *linePublisher) printed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// create creates the stream if it does not exist. An existing one may have another configuration.
func (c *publishCmd) create(ctx context.Context, server *client.Client) error {
	if _, err := server.ShowStream(ctx, c.Stream); !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	retention := c.retention()
	retention.MaxIdle, retention.MaxAgeEach = client.Duration(c.MaxIdle), client.Duration(c.MaxAgeEach)
	_, err := server.CreateStream(ctx, c.Stream, client.StreamConfig{Retention: retention, Labels: c.Label})
	if errors.Is(err, reprise.ErrConflict) {
		return nil // another client was faster
	}
	return err
}

// isJSON reports whether a line is published as the JSON value that it is, or has to be.
func (c *publishCmd) isJSON(line []byte) bool {
	if c.As != "" {
		return c.As == linesOfJSON
	}
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && (line[0] == '{' || line[0] == '[') && json.Valid(line)
}

// event returns a line as an event.
func (c *publishCmd) event(line []byte) (client.NewEvent, error) {
	if !c.isJSON(line) {
		c.asText++
		text, err := json.Marshal(string(line))
		return client.NewEvent{Type: c.Type, Data: text}, err
	}
	c.asJSON++
	if c.As != "" && !json.Valid(line) {
		before := "the lines before it are published"
		if c.Key != "" {
			before = "nothing was published"
		}
		return client.NewEvent{}, usage("not a JSON value: %.100q; %s", line, before)
	}
	return client.NewEvent{Type: c.Type, Data: line}, nil
}

// sayWhich says what the lines were taken for, where no flag says what they are.
func (c *publishCmd) sayWhich() {
	if c.As == "" && c.asJSON > 0 {
		fmt.Fprintf(os.Stderr, "reprise: lines taken as JSON: %d, as text: %d; --content-type says what they are\n",
			c.asJSON, c.asText)
	}
}
