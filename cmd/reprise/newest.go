package main

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"reprise/client"
	"reprise/cmd/reprise/internal/ids"
)

// newest is the flag of verbs that can take the newest execution in place of an id.
type newest struct {
	Last bool `env:"-" help:"Take the newest execution, in place of an id."`
}

// lookUpTime bounds the requests of a look for a beginning.
const lookUpTime = 10 * time.Second

// abbreviating are the verbs whose first argument may be the beginning of an id. Ids of what "remove" removes are never
// guessed.
var abbreviating = []string{
	"attach", "follow", "logs", "wait", "show", "input", "signal", "cancel", "retain", "artifacts", "rerun",
}

// wholeNames replaces the ids of a command line by the ids that they stand for: beginnings by the whole ids, and --last
// by the id of the newest execution.
func wholeNames(command *kong.Context) error {
	verb := command.Selected()
	if verb == nil || len(verb.Positional) == 0 || !slices.Contains(abbreviating, verb.Name) ||
		verb.Parent.Parent != nil {
		return nil
	}
	target := verb.Positional[0].Target
	names, several := reflect.TypeAssert[[]string](target)
	if !several && target.String() != "" {
		names = []string{target.String()}
	}
	last := isGiven(command, "last")
	others := isGiven(command, "stream", "session", "mcp", "task")
	switch {
	case last && (len(names) > 0 || others):
		return usage("--last is in place of the id of an execution")
	case !last && len(names) == 0:
		return usage("which one? Its name, the first %d characters of an id, or --last", ids.MinBeginning)
	case !last && (others || !slices.ContainsFunc(names, ids.IsBeginning)):
		return nil
	}
	at := connect{
		URL: flagText(command, "url"), TokenFile: flagText(command, "token-file"),
		Context: flagText(command, "context"),
	}
	server, err := at.clientWith(client.Options{GiveUp: -1})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookUpTime)
	defer cancel()
	names = slices.Clone(names)
	if last {
		names = make([]string, 1)
		names[0], err = ids.Newest(ctx, server)
	}
	for i, name := range names {
		if err == nil && ids.IsBeginning(name) {
			if names[i], err = ids.Whole(ctx, server, name); err != nil {
				return usage("%w", err)
			}
		}
	}
	switch {
	case err != nil && slices.Contains([]string{"attach", "follow", "rerun", "wait"}, verb.Name):
		return ours(err) // other codes come from commands
	case err != nil:
		return err
	case several:
		target.Set(reflect.ValueOf(names))
	default:
		target.SetString(names[0])
	}
	return nil
}

// isGiven reports whether one of these flags is given that a verb may have.
func isGiven(command *kong.Context, names ...string) bool {
	return slices.ContainsFunc(command.Flags(), func(flag *kong.Flag) bool {
		is, _ := command.FlagValue(flag).(bool)
		return is && slices.Contains(names, flag.Name)
	})
}
