package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"reprise/internal/execution"
)

// cursorArg is a cursor: the text of one, or, as the first sandbox server has it, the number of events before the
// position, which is the seq of the last of them.
type cursorArg struct {
	text  string
	seq   uint64
	isSeq bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *cursorArg) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &c.text)
	}
	c.isSeq = true
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	if _, err := fmt.Sscanf(n.String(), "%d", &c.seq); err != nil {
		return fmt.Errorf("cursor: %q is not a number of events", n)
	}
	return nil
}

// waitArg is a time in seconds, or, as the first sandbox server has it, whether to wait for the end.
type waitArg struct {
	given   bool
	seconds float64
	isFlag  bool
	flag    bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *waitArg) UnmarshalJSON(data []byte) error {
	w.given = true
	switch data = bytes.TrimSpace(data); string(data) {
	case "true", "false":
		w.isFlag, w.flag = true, data[0] == 't'
		return nil
	}
	return json.Unmarshal(data, &w.seconds)
}

// eventArg is the id of an event. The first sandbox server's clients give null for none.
type eventArg struct {
	given bool
	text  string
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *eventArg) UnmarshalJSON(data []byte) error {
	e.given = true
	return json.Unmarshal(data, &e.text) // null changes nothing
}

// keptArg says how much of a run's output is kept. It is one object without the schema of its members, which each model
// would read twice.
type keptArg struct{ execution.Retention }

// UnmarshalJSON implements json.Unmarshaler.
func (k *keptArg) UnmarshalJSON(data []byte) error {
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(&k.Retention); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	return nil
}

// argumentSchemas are the schemas of our own types.
var argumentSchemas = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[cursorArg](): {Types: []string{"string", "integer"}},
	reflect.TypeFor[waitArg]():   {Types: []string{"number", "boolean"}},
	reflect.TypeFor[eventArg]():  {Types: []string{"string", "null"}},
	reflect.TypeFor[keptArg]():   {Type: "object"},
}

// inputSchema is the schema of the arguments In. It leaves null out where a list may be nil: no client sends that, and
// each model pays for it.
func inputSchema[In any]() *jsonschema.Schema {
	schema, err := jsonschema.For[In](&jsonschema.ForOptions{TypeSchemas: argumentSchemas})
	if err != nil {
		panic(err) // of our own types
	}
	for _, property := range schema.Properties {
		if len(property.Types) == 2 && property.Types[0] == "null" {
			property.Type, property.Types = property.Types[1], nil
		}
	}
	return schema
}
