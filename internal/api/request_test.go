package api_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"reprise/client"
)

// TestRequestMembersAreThoseOfTheDocument: the structs of package client, which the server reads requests into, have
// the members that openapi.yaml lists.
func TestRequestMembersAreThoseOfTheDocument(t *testing.T) {
	for schema, of := range map[string]reflect.Type{
		"ExecutionRequest": reflect.TypeFor[client.StartRequest](),
		"TTY":              reflect.TypeFor[client.TTY](),
		"Limits":           reflect.TypeFor[client.Limits](),
		"Retention":        reflect.TypeFor[client.Retention](),
	} {
		n := theContract().follow("#/components/schemas/" + schema)
		properties, ok := n.value["properties"].(map[string]any)
		if !ok {
			t.Fatalf("%s has no properties", schema)
		}
		var members []string
		for field := range of.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" {
				members = append(members, name)
			}
		}
		slices.Sort(members)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(properties)), members); diff != "" {
			t.Errorf("%s (-openapi.yaml +%s):\n%s", schema, of, diff)
		}
	}
}
