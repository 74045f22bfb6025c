package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"reprise/client"
	"reprise/internal/bytesize"
)

// retainCmd changes how much of something that exists is kept.
type retainCmd struct {
	connect `embed:""`

	Stream  bool              `short:"s" env:"-" help:"The names are streams. This is assumed for names with a slash."`
	Events  int64             `placeholder:"N" help:"Number of events to keep."`
	Bytes   bytesize.Size     `placeholder:"SIZE" help:"Size of the events to keep, for example 64MiB."`
	Age     time.Duration     `placeholder:"DURATION" help:"How long it is kept after its end, for example 48h."`
	Label   map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Label to set. May be repeated."`
	Unlabel []string          `sep:"none" placeholder:"KEY" help:"Label to remove. May be repeated."`
	JSON    bool              `name:"json" help:"Print what was changed as lines of JSON."`

	Names []string `arg:"" name:"name" help:"Ids of executions, or names of streams. They may have ended."`
}

// Run changes them all, as far as it can.
func (c *retainCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	change := client.Change{
		Retention: client.RetentionChange{
			MaxEvents: given(c.Events), MaxBytes: given(int64(c.Bytes)), MaxAge: given(client.Duration(c.Age)),
		},
		Labels: map[string]*string{},
	}
	for key, value := range c.Label {
		change.Labels[key] = &value
	}
	for _, key := range c.Unlabel {
		change.Labels[key] = nil
	}
	if c.Events < 0 || c.Age < 0 {
		return usage("--events and --age are not negative")
	}
	if change.Retention == (client.RetentionChange{}) && len(change.Labels) == 0 {
		return usage("nothing to change: give --events, --bytes, --age, --label or --unlabel")
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range c.Names {
		raw, err := c.change(ctx, server, name, change)
		if err == nil && c.JSON {
			err = printObject(raw)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// given returns nil for the value of a flag that was not given.
func given[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

func (c *retainCmd) change(ctx context.Context, server *client.Client, name string, change client.Change) (
	json.RawMessage, error,
) {
	if !c.Stream && !isStreamName(name) {
		x, err := server.Configure(ctx, name, change)
		if !isStreamAlone(ctx, server, name, err) {
			return x.Raw, err
		}
	}
	s, err := server.ConfigureStream(ctx, name, change)
	return s.Raw, err
}
