// Package ids finds executions by the beginnings of their ids.
package ids

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"reprise"
	"reprise/client"
)

// Ids that the server or a client makes are random: beginnings of six characters name them. An id that somebody has
// chosen is always written out, so that "build-1" never means "build-12".
const (
	generatedID  = 26
	MinBeginning = 6
	// lookedThrough is the number of newest executions among which a beginning is looked for.
	lookedThrough = 1000
)

// IsBeginning reports whether a name can be the beginning of an id that was generated.
func IsBeginning(name string) bool {
	return len(name) >= MinBeginning && len(name) < generatedID && isRandom(name)
}

// isRandom reports whether a name has only characters of generated ids.
func isRandom(name string) bool { return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz234567") == "" }

// Newest returns the id of the newest execution.
func Newest(ctx context.Context, server *client.Client) (string, error) {
	page, err := server.List(ctx, client.ExecutionQuery{Limit: 1})
	if err == nil && len(page.Executions) == 0 {
		err = errors.New("there is no execution")
	}
	if err != nil {
		return "", err
	}
	return page.Executions[0].ID, nil
}

// Whole returns the id that begins with name, if nothing is called name itself. It returns name where it finds none,
// or the server does not answer: the verb then says what is wrong.
func Whole(ctx context.Context, server *client.Client, name string) (string, error) {
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
			return "", fmt.Errorf("%s and %s begin with %s", found, id, name)
		}
		found = id
	}
	return found, nil
}
