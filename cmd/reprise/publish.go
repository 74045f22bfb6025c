package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"reprise"
	"reprise/client"
)

// publishCmd publishes to a stream.
type publishCmd struct {
	connect `embed:""`
	named   `embed:""`

	Type  string            `placeholder:"TYPE" help:"Type of the events. Default: message."`
	Parse bool              `help:"Each line is a JSON value, not text."`
	JSON  bool              `name:"json" help:"Print what became of the lines as they are kept: {\"first\":1,\"last\":3,...}."`
	Label map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Label of a stream that is created. May be repeated."`
	retain

	Stream string `arg:"" help:"Name of the stream."`
}

// Help is shown below the usage.
func (*publishCmd) Help() string {
	return `Lines that are there at the same time are published together. Each is published once, however often a request has to be sent again. A line that is not UTF-8 is published as bytes.`
}

const (
	// maxLine is the most that a line may have, the server's bound on events.
	maxLine = 1 << 20
	// maxTogether and togetherBytes bound what is published in one request, which may
	// be 1 MiB of JSON, in which a byte takes six at worst.
	maxTogether   = 1000
	togetherBytes = 64 << 10
)

// Run publishes until the end of stdin.
func (c *publishCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	if err := c.create(ctx, server); err != nil {
		return err
	}
	lines, failed := readLines(ctx, os.Stdin)
	producer := server.Producer(c.Stream)
	for first := range lines {
		published, err := c.publish(ctx, producer, together(first, lines))
		if err != nil {
			return err
		}
		if err := c.acknowledge(published); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return <-failed
}

// create makes the stream if it is not there. One that is may have been made with
// another configuration.
func (c *publishCmd) create(ctx context.Context, server *client.Client) error {
	if _, err := server.ShowStream(ctx, c.Stream); !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	_, err := server.CreateStream(ctx, c.Stream, client.StreamConfig{Retention: c.retention(), Labels: c.Label})
	if errors.Is(err, reprise.ErrConflict) {
		return nil // somebody else was faster
	}
	return err
}

// readLines sends the lines of r without their ends, and then the error, nil at the end.
func readLines(ctx context.Context, r io.Reader) (<-chan []byte, <-chan error) {
	lines, failed := make(chan []byte, maxTogether), make(chan error, 1)
	go func() {
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, maxLine+1)
		defer close(lines)
		for scanner.Scan() {
			select {
			case lines <- bytes.Clone(scanner.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		err := scanner.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line of more than %v", byteCount(maxLine))
		}
		failed <- err
	}()
	return lines, failed
}

// together is first and what else is there now, as far as one request takes it.
func together(first []byte, lines <-chan []byte) [][]byte {
	batch, size := [][]byte{first}, len(first)
	for len(batch) < maxTogether && size < togetherBytes {
		select {
		case line, ok := <-lines:
			if !ok {
				return batch
			}
			batch, size = append(batch, line), size+len(line)
		default:
			return batch
		}
	}
	return batch
}

// publish publishes lines in order. Those that are large or no text go alone, as bytes.
func (c *publishCmd) publish(ctx context.Context, producer *client.Producer, lines [][]byte) (client.Published, error) {
	var all client.Published
	var events []client.NewEvent
	note := func(p client.Published, err error) error {
		if err == nil {
			if all.First == 0 {
				all.First = p.First
			}
			all.Last, all.Cursor = p.Last, p.Cursor
		}
		return err
	}
	flush := func() error {
		if len(events) == 0 {
			return nil
		}
		err := note(producer.Publish(ctx, events...))
		events = nil
		return err
	}
	for _, line := range lines {
		if !c.Parse && (len(line) > togetherBytes || !utf8.Valid(line)) {
			if err := errors.Join(flush(), note(producer.PublishBytes(ctx, c.Type, line))); err != nil {
				return all, err
			}
			continue
		}
		event, err := c.event(line)
		if err != nil {
			return all, errors.Join(flush(), err)
		}
		events = append(events, event)
	}
	return all, flush()
}

// event is a line as an event.
func (c *publishCmd) event(line []byte) (client.NewEvent, error) {
	if !c.Parse {
		text, err := json.Marshal(string(line))
		return client.NewEvent{Type: c.Type, Data: text}, err
	}
	if !json.Valid(line) {
		return client.NewEvent{}, usage("not a JSON value: %.100q; the lines before it are published", line)
	}
	return client.NewEvent{Type: c.Type, Data: line}, nil
}

func (c *publishCmd) acknowledge(p client.Published) error {
	if !c.JSON {
		return nil
	}
	return printObject(p)
}
