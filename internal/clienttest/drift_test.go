package clienttest_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A member is what a document or a client says of one member of an object.
type member struct {
	kinds    []string // of its values: string, number, boolean, array, object, null; sorted; empty for any
	enum     []string // where only these strings are allowed; sorted
	required bool
}

// document is openapi.yaml as far as the clients are concerned.
type document struct {
	schemas    map[string]any
	operations map[string][]string // parameters of the query, by operationId
}

func openDocument(t *testing.T) *document {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash("../api/openapi.yaml"))
	must(t, err)
	var root map[string]any
	must(t, yaml.Unmarshal(text, &root))
	components := root["components"].(map[string]any)
	doc := &document{schemas: components["schemas"].(map[string]any), operations: map[string][]string{}}
	for _, item := range root["paths"].(map[string]any) {
		common, _ := item.(map[string]any)["parameters"].([]any)
		for _, operation := range item.(map[string]any) {
			operation, ok := operation.(map[string]any)
			if !ok {
				continue
			}
			own, _ := operation["parameters"].([]any)
			names := []string{}
			for _, parameter := range slices.Concat(common, own) {
				parameter := parameter.(map[string]any)
				if ref, ok := parameter["$ref"].(string); ok {
					name := ref[strings.LastIndex(ref, "/")+1:]
					parameter = components["parameters"].(map[string]any)[name].(map[string]any)
				}
				if parameter["in"] == "query" {
					names = append(names, parameter["name"].(string))
				}
			}
			doc.operations[operation["operationId"].(string)] = names
		}
	}
	return doc
}

// resolve follows a $ref.
func (doc *document) resolve(schema any) map[string]any {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return doc.resolve(doc.schemas[strings.TrimPrefix(ref, "#/components/schemas/")])
	}
	return s
}

// members are those of an object, with those of all schemas that it is made of.
func (doc *document) members(schema any) map[string]member {
	s := doc.resolve(schema)
	all := map[string]member{}
	for _, part := range list(s["allOf"]) {
		maps.Copy(all, doc.members(part))
	}
	for _, name := range list(s["required"]) {
		all[name.(string)] = member{required: true} // where a part does not say more
	}
	properties, _ := s["properties"].(map[string]any)
	for name, property := range properties {
		m := doc.member(property)
		m.required = slices.Contains(list(s["required"]), any(name))
		all[name] = m
	}
	return all
}

// member says what values a schema allows.
func (doc *document) member(schema any) member {
	s := doc.resolve(schema)
	var m member
	for _, word := range []string{"oneOf", "anyOf", "allOf"} {
		for _, part := range list(s[word]) {
			other := doc.member(part)
			m.kinds, m.enum = append(m.kinds, other.kinds...), append(m.enum, other.enum...)
		}
	}
	switch kind := s["type"].(type) {
	case string:
		m.kinds = append(m.kinds, kind)
	case []any:
		for _, one := range kind {
			m.kinds = append(m.kinds, one.(string))
		}
	}
	for _, value := range append(list(s["enum"]), list([]any{s["const"]})...) {
		if text, ok := value.(string); ok {
			m.kinds, m.enum = append(m.kinds, "string"), append(m.enum, text)
		}
	}
	if s["properties"] != nil {
		m.kinds = append(m.kinds, "object")
	}
	for i, kind := range m.kinds {
		if kind == "integer" {
			m.kinds[i] = "number"
		}
	}
	m.kinds, m.enum = sorted(m.kinds), sorted(m.enum)
	return m
}

func list(value any) []any {
	items, _ := value.([]any)
	return items
}

func sorted(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// TestEverySchemaIsInBothClients compares the types of the clients for TypeScript and Python that are written by hand
// with openapi.yaml; TestGeneratedTypes compares the others. A member that is added to the document and missing in a
// client fails here. So does one that a client has and the document does not.
func TestEverySchemaIsInBothClients(t *testing.T) {
	doc := openDocument(t)
	all := openSchemas(t)
	generated := all.generated()
	for name := range doc.schemas {
		_, unknown := unknownSchemas[name]
		_, typescript := typescriptSDK.types[name]
		typescript = typescript || !unknown && slices.Contains(generated, name)
		_, python := pythonSDK.types[name]
		python = python || all.isClass(name)
		if unknown == (typescript && python) {
			t.Errorf("%s belongs to the types of both clients, or to unknownSchemas with a reason", name)
		}
	}
	for _, sdk := range []*sdk{typescriptSDK, pythonSDK} {
		source := sdk.open(t)
		for name, target := range sdk.types {
			if _, ok := doc.schemas[name]; !ok {
				t.Errorf("%s: openapi.yaml has no schema %s", sdk.language, name)
			} else if target != "" {
				sdk.compare(t, name, target, doc.members(doc.schemas[name]), source)
			}
		}
	}
}

// compare holds one type of a client against its schema.
func (s *sdk) compare(t *testing.T, schema, target string, want map[string]member, source *source) {
	t.Helper()
	got := source.members(target)
	if got == nil {
		t.Errorf("%s: there is no %s, which stands for the schema %s", s.language, target, schema)
		return
	}
	known := map[string]bool{}
	for name, want := range want {
		as, renamed := s.renamed[schema+"."+name]
		if !renamed {
			as = name
		}
		if as == "" {
			continue
		}
		known[as] = true
		got, ok := got[as]
		if !ok {
			t.Errorf("%s: %s has no %s, which openapi.yaml has in %s", s.language, target, as, schema)
			continue
		}
		s.differ(t, target+"."+as, want, got)
	}
	if strings.HasSuffix(target, ")") {
		return // a method has more parameters
	}
	for name := range got {
		if !known[name] && !slices.Contains(s.extra[target], name) {
			t.Errorf("%s: %s has %s, which openapi.yaml does not have in %s", s.language, target, name, schema)
		}
	}
}

// differ compares one member. What a client does not say is not compared.
func (s *sdk) differ(t *testing.T, name string, want, got member) {
	t.Helper()
	if s.lenient || len(want.kinds) == 0 || len(got.kinds) == 0 {
		want.kinds, got.kinds = without(want.kinds, "null"), without(got.kinds, "null")
	}
	if len(want.kinds) > 0 && len(got.kinds) > 0 && !slices.Equal(want.kinds, got.kinds) && !s.loose[name] {
		t.Errorf("%s: %s is %v, in openapi.yaml %v", s.language, name, got.kinds, want.kinds)
	}
	if len(got.enum) > 0 && !slices.Equal(got.enum, want.enum) && !s.loose[name] {
		t.Errorf("%s: %s is one of %q, in openapi.yaml of %q", s.language, name, got.enum, want.enum)
	}
	if !s.lenient && got.required && !want.required && !s.loose[name] {
		t.Errorf("%s: %s is always there, in openapi.yaml it may be left out", s.language, name)
	}
}

func without(words []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == word })
}

// TestEveryOperationIsInBothClients finds a method for each operation, and each parameter of its query in the source of
// both clients.
func TestEveryOperationIsInBothClients(t *testing.T) {
	doc := openDocument(t)
	sources := []*source{typescriptSDK.open(t), pythonSDK.open(t)}
	for id, parameters := range doc.operations {
		names, known := operations[id]
		if _, unknown := unknownOperations[id]; unknown == known {
			t.Errorf("%s belongs either to operations, or to unknownOperations with a reason", id)
		}
		if !known {
			continue
		}
		for i, sdk := range []*sdk{typescriptSDK, pythonSDK} {
			source := sources[i]
			if source.members(names[i]+"()") == nil {
				t.Errorf("%s: there is no %s for %s", sdk.language, names[i], id)
			}
			for _, parameter := range parameters {
				if !unknownParameters[parameter] && !source.sends(parameter) {
					t.Errorf("%s: nothing sends the parameter %s of %s", sdk.language, parameter, id)
				}
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
