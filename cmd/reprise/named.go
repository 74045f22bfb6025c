package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"reprise"
	"reprise/client"
)

// named is the flag of the verbs that know streams alone, so that -s NAME means a stream for every verb.
type named struct {
	Stream bool `short:"s" name:"stream" env:"-" help:"The name is that of a stream, which it is anyway."`
}

// isStreamName reports whether a name can be that of a stream alone: the id of an execution has no slash.
func isStreamName(name string) bool { return strings.Contains(name, "/") }

// hintStream adds to err, the refusal of an execution called name, that there is a stream of that name.
func hintStream(ctx context.Context, server *client.Client, name string, err error) error {
	if !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	if _, serr := server.ShowStream(ctx, name); serr != nil {
		return err
	}
	return fmt.Errorf("%w: there is a stream of that name, which takes -s", err)
}
