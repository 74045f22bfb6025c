package main

import (
	"context"
	"errors"
	"strings"

	"reprise"
	"reprise/client"
)

// named is the flag of the verbs that know streams alone, so that -s NAME means a stream for every verb.
type named struct {
	Stream bool `short:"s" name:"stream" env:"-" help:"The name is a stream. This is the default."`
}

// isStreamName reports whether a name can only mean a stream: the id of an execution has no slash.
func isStreamName(name string) bool { return strings.Contains(name, "/") }

// isStreamAlone reports whether err, the refusal of an execution called name, means that name is a stream, not an
// execution.
func isStreamAlone(ctx context.Context, server *client.Client, name string, err error) bool {
	if !errors.Is(err, reprise.ErrNotFound) {
		return false
	}
	_, err = server.ShowStream(ctx, name)
	return err == nil
}
