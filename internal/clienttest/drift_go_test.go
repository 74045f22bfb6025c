package clienttest_test

import (
	"reflect"
	"strings"
	"testing"

	"reprise/client"
)

// goTypes are types of package client by the names of their schemas. The server answers with them.
var goTypes = map[string]any{
	"Access":             client.Access{},
	"AuditCheck":         client.AuditCheck{},
	"Change":             client.Change{},
	"Drain":              client.Drain{},
	"DrainRequest":       client.DrainRequest{},
	"Execution":          client.Execution{},
	"ExecutionRequest":   client.StartRequest{},
	"File":               client.File{},
	"Interpreter":        client.Interpreter{},
	"InterpreterRequest": client.InterpreterRequest{},
	"Key":                client.Key{},
	"KeptRequest":        client.KeptRequest{},
	"KeyRequest":         client.KeyRequest{},
	"Limits":             client.Limits{},
	"Quota":              client.Quota{},
	"Quotas":             client.Quotas{},
	"Replica":            client.Replica{},
	"RetentionChange":    client.RetentionChange{},
	"Schedule":           client.Schedule{},
	"ScheduleRequest":    client.ScheduleRequest{},
	"Session":            client.Session{},
	"Stream":             client.Stream{},
	"Swept":              client.Swept{},
	"Task":               client.Task{},
	"Ticket":             client.Ticket{},
	"TicketRequest":      client.TicketRequest{},
	"Watch":              client.Watch{},
	"Webhook":            client.Webhook{},
	"WebhookAnswer":      client.WebhookAnswer{},
	"WebhookRequest":     client.WebhookRequest{},
}

var goSDK = &sdk{language: "Go", lenient: true}

// TestEveryGoTypeIsItsSchema compares types of package client with openapi.yaml. Links are left out: Client knows the
// paths.
func TestEveryGoTypeIsItsSchema(t *testing.T) {
	doc := openDocument(t)
	source := &source{types: map[string]map[string]member{}}
	for schema, value := range goTypes {
		target := reflect.TypeOf(value)
		source.types[target.Name()] = goMembers(target)
		want := doc.members(doc.schemas[schema])
		delete(want, "links")
		goSDK.compare(t, schema, target.Name(), want, source)
	}
}

// goMembers are the members that encoding/json writes.
func goMembers(structure reflect.Type) map[string]member {
	members := map[string]member{}
	for field := range structure.Fields() {
		tag := field.Tag.Get("json")
		if name, _, _ := strings.Cut(tag, ","); name != "-" {
			members[name] = member{kinds: goKinds(field.Type)}
		}
	}
	return members
}

func goKinds(t reflect.Type) []string {
	if t.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()) {
		return []string{"string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return goKinds(t.Elem())
	case reflect.String:
		return []string{"string"}
	case reflect.Bool:
		return []string{"boolean"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return []string{"string"} // base64
		}
		return []string{"array"}
	case reflect.Struct, reflect.Map:
		return []string{"object"}
	}
	return []string{"number"}
}
