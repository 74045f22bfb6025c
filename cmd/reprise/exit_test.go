package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"reprise"
	"reprise/client"
)

// TestHintNamesTheListingOfTheKind: what does not exist is looked for in the list of its kind.
func TestHintNamesTheListingOfTheKind(t *testing.T) {
	for op, want := range map[string]string{
		"show execution stream":         `"reprise list" shows`,
		"show stream ticks":             `"reprise list --streams" shows`,
		"end stream ticks":              `"reprise list --streams" shows`,
		"show session s":                `"reprise list --sessions" shows`,
		"show MCP session m":            `"reprise list --mcp" shows`,
		"list calls of MCP session m":   `"reprise list --mcp" shows`,
		"show task t":                   `"reprise list --tasks" shows`,
		"interrupt interpreter i":       `"reprise interpreter list" shows`,
		"remove schedule x":             `"reprise schedule list" shows`,
		"rotate webhook x":              `"reprise webhook list" shows`,
		"show key x":                    `"reprise key list" shows`,
		"show quotas":                   `"reprise key list" shows`,
		"write to execution interprete": `"reprise list" shows`,
	} {
		if got := hint(&client.Error{Op: op, Err: reprise.ErrNotFound}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: hint %q, want %s", op, got, want)
		}
	}
}

// TestEnvironmentVariablesHaveOneForm: a variable that several verbs read has the same form for all of them. An
// operator who exports REPRISE_DATA for serve would otherwise make another verb fail.
func TestEnvironmentVariablesHaveOneForm(t *testing.T) {
	type use struct {
		kind reflect.Kind
		verb string
	}
	first := map[string]use{}
	var walk func(node *kong.Node)
	walk = func(node *kong.Node) {
		for _, flag := range node.Flags {
			for _, name := range flag.Envs {
				kind := flag.Target.Kind()
				switch known, ok := first[name]; {
				case !ok:
					first[name] = use{kind, node.FullPath()}
				case known.kind != kind:
					t.Errorf("%s is a %v for %q and a %v for %q", name, known.kind, known.verb, kind, node.FullPath())
				}
			}
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(model().Node)
	if first["REPRISE_DATA"].verb == "" {
		t.Error("no verb reads REPRISE_DATA")
	}
}
