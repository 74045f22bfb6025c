package main

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"reprise"
	"reprise/client"
)

// newest is the flag of verbs that can take the newest execution in place of an id.
type newest struct {
	Last bool `env:"-" help:"Take the newest execution, in place of an id."`
}

// Ids that the server or a client makes are random: beginnings of six characters name them. An id that somebody has
// chosen is always written out, so that "build-1" never means "build-12".
const (
	generatedID  = 26
	minBeginning = 6
	// lookedThrough is the number of newest executions among which a beginning is looked for.
	lookedThrough = 1000
	// lookUpTime bounds the requests of a look for a beginning.
	lookUpTime = 10 * time.Second
)

// abbreviating are the verbs whose first argument may be the beginning of an id. What is removed is never guessed.
var abbreviating = []string{
	"attach", "follow", "logs", "wait", "show", "input", "signal", "cancel", "retain", "artifacts",
}

// wholeNames replaces the ids of a command line by the ids that they stand for: beginnings by the whole ids, and --last
// by that of the newest execution.
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
	last, others := isGiven(command, "last"), isGiven(command, "stream", "session", "mcp", "task")
	switch {
	case last && (len(names) > 0 || others):
		return usage("--last is in place of the id of an execution")
	case !last && len(names) == 0:
		return usage("which one? Its name, the first %d characters of an id, or --last", minBeginning)
	case !last && (others || !slices.ContainsFunc(names, isBeginning)):
		return nil
	}
	at := connect{URL: flagText(command, "url"), TokenFile: flagText(command, "token-file")}
	server, err := at.clientWith(client.Options{GiveUp: -1})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookUpTime)
	defer cancel()
	names = slices.Clone(names)
	if last {
		names, err = lastID(ctx, server)
	}
	for i, name := range names {
		if err == nil && isBeginning(name) {
			names[i], err = wholeID(ctx, server, name)
		}
	}
	switch {
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

// isBeginning reports whether a name can be the beginning of an id that was generated.
func isBeginning(name string) bool {
	return len(name) >= minBeginning && len(name) < generatedID && isRandom(name)
}

// isRandom reports whether a name has only characters of generated ids.
func isRandom(name string) bool { return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz234567") == "" }

// lastID returns the id of the newest execution.
func lastID(ctx context.Context, server *client.Client) ([]string, error) {
	page, err := server.List(ctx, client.ExecutionQuery{Limit: 1})
	if err == nil && len(page.Executions) == 0 {
		err = errors.New("there is no execution")
	}
	if err != nil {
		return nil, err
	}
	return []string{page.Executions[0].ID}, nil
}

// wholeID returns the id that begins with name, if nothing is called name itself. It returns name where it finds none,
// or the server does not answer: the verb then says what is wrong.
func wholeID(ctx context.Context, server *client.Client, name string) (string, error) {
	if _, err := server.Show(ctx, name); !errors.Is(err, reprise.ErrNotFound) {
		return name, nil
	}
	if _, err := server.ShowStream(ctx, name); !errors.Is(err, reprise.ErrNotFound) {
		return name, nil
	}
	page, _ := server.List(ctx, client.ExecutionQuery{Limit: lookedThrough}) // where it fails, name finds nothing
	found := name
	for i := range page.Executions {
		id := page.Executions[i].ID
		if len(id) != generatedID || !isRandom(id) || !strings.HasPrefix(id, name) {
			continue
		}
		if found != name {
			return "", usage("%s and %s begin with %s", found, id, name)
		}
		found = id
	}
	return found, nil
}
