package clienttest_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the types of the clients instead of comparing them")

// handwritten are objects whose types in the clients are written by hand.
var handwritten = map[string]string{
	"CursorEvent": encoding, "CursorMove": encoding, "Event": encoding, "EventPage": encoding, "EventPiece": encoding,
	"End": encoding, "Gap": encoding, "Numbered": encoding, "Payload": encoding, "Started": encoding,
	"Expired":         encoding,
	"EventsToPublish": "methods take the events alone",
	"FileChange":      "a File with one more member",
	"Problem":         "an error in each language",
	"Acknowledgement": goAlone, "Proof": goAlone, "CheckLine": goAlone,
}

// TestGeneratedTypes compares the types that are made of openapi.yaml with those that are checked in. With -update it
// writes them.
func TestGeneratedTypes(t *testing.T) {
	schemas := openSchemas(t)
	for file, text := range map[string]string{
		"../../sdk/typescript/src/schemas.ts":      schemas.typescript(),
		"../../sdk/python/src/reprise/_schemas.py": schemas.python(),
	} {
		file = filepath.FromSlash(file)
		if *update {
			must(t, os.WriteFile(file, []byte(text), 0o644))
		}
		got, err := os.ReadFile(file)
		must(t, err)
		if !bytes.Equal(got, []byte(text)) {
			t.Errorf("%s is not what openapi.yaml says: run make generate", file)
		}
	}
}

// schemas are the schemas of openapi.yaml, in its order.
type schemas struct {
	names []string
	by    map[string]*schema
}

// schema is a schema, as far as types go.
type schema struct {
	Ref         string     `yaml:"$ref"`
	Type        any        `yaml:"type"` // a string, or a list of strings
	Description string     `yaml:"description"`
	Format      string     `yaml:"format"`
	Enum        []string   `yaml:"enum"`
	Items       *schema    `yaml:"items"`
	AllOf       []*schema  `yaml:"allOf"`
	OneOf       []*schema  `yaml:"oneOf"`
	Required    []string   `yaml:"required"`
	Properties  properties `yaml:"properties"`
	Additional  yaml.Node  `yaml:"additionalProperties"`
}

// properties are the members of an object, in the order of the document.
type properties struct {
	names []string
	by    map[string]*schema
}

func (p *properties) UnmarshalYAML(node *yaml.Node) error {
	for i := 0; i < len(node.Content); i += 2 {
		p.names = append(p.names, node.Content[i].Value)
	}
	return node.Decode(&p.by)
}

func openSchemas(t *testing.T) *schemas {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash("../api/openapi.yaml"))
	must(t, err)
	var document struct {
		Components struct {
			Schemas properties `yaml:"schemas"`
		} `yaml:"components"`
	}
	must(t, yaml.Unmarshal(text, &document))
	all := document.Components.Schemas
	return &schemas{all.names, all.by}
}

// generated returns the names of the schemas whose types are generated.
func (s *schemas) generated() (names []string) {
	for _, name := range s.names {
		if s.isNamed(name) && handwritten[name] == "" {
			names = append(names, name)
		}
	}
	return names
}

// isNamed reports whether a schema is a type of its own: an object with members, or an enumeration.
func (s *schemas) isNamed(name string) bool {
	one := s.by[name]
	return one.Properties.names != nil || one.Enum != nil && name != "Flag"
}

// refName returns the name of the schema that one refers to, or "".
func refName(one *schema) string { return one.Ref[strings.LastIndex(one.Ref, "/")+1:] }

// typescript returns a module with all types.
func (s *schemas) typescript() string {
	var b strings.Builder
	b.WriteString("// The objects of the API. Generated from openapi.yaml by \"make generate\".\n")
	for _, name := range s.generated() {
		one := s.by[name]
		b.WriteByte('\n')
		writeComment(&b, "", one.Description)
		if one.Enum != nil {
			fmt.Fprintf(&b, "export type %s =\n  | %s\n", name, strings.ReplaceAll(s.tsType(one, ""), " | ", "\n  | "))
			continue
		}
		fmt.Fprintf(&b, "export interface %s %s\n", name, s.tsObject(one, ""))
	}
	return b.String()
}

// tsObject returns an object type whose lines begin with indent.
func (s *schemas) tsObject(one *schema, indent string) string {
	var b strings.Builder
	b.WriteString("{\n")
	for _, name := range one.Properties.names {
		member := one.Properties.by[name]
		about := member.Description
		if name := refName(member); about == "" && name != "" && !s.isNamed(name) {
			about = s.by[name].Description
		}
		writeComment(&b, indent+"  ", about)
		optional := "?"
		if slices.Contains(one.Required, name) {
			optional = ""
		}
		fmt.Fprintf(&b, "%s  %s%s: %s\n", indent, name, optional, s.tsType(member, indent+"  "))
	}
	b.WriteString(indent + "}")
	return b.String()
}

func (s *schemas) tsType(one *schema, indent string) string {
	if one.Ref != "" {
		name := refName(one)
		if s.isNamed(name) {
			return name
		}
		return s.tsType(s.by[name], indent)
	}
	var kinds []string
	for _, part := range slices.Concat(one.AllOf, one.OneOf) {
		kinds = append(kinds, s.tsType(part, indent))
	}
	types, _ := one.Type.([]any)
	if one.Type != nil && types == nil {
		types = []any{one.Type}
	}
	for _, value := range one.Enum {
		kinds = append(kinds, "'"+value+"'")
	}
	for _, kind := range types {
		switch {
		case kind == "object" && one.Properties.names != nil:
			kinds = append(kinds, s.tsObject(one, indent))
		case kind == "object":
			kinds = append(kinds, "Record<string, "+s.tsValue(&one.Additional)+">")
		case kind == "array":
			item := s.tsType(one.Items, indent)
			if strings.Contains(item, " | ") && !strings.Contains(item, "\n") {
				item = "(" + item + ")"
			}
			kinds = append(kinds, item+"[]")
		case kind == "integer":
			kinds = append(kinds, "number")
		case kind != "string" || one.Enum == nil:
			kinds = append(kinds, kind.(string))
		}
	}
	if i := slices.Index(kinds, "null"); i >= 0 { // null comes last
		kinds = append(slices.Delete(kinds, i, i+1), "null")
	}
	if kinds == nil {
		return "unknown"
	}
	return strings.Join(kinds, " | ")
}

// tsValue returns the type of the values of a map.
func (s *schemas) tsValue(additional *yaml.Node) string {
	var one schema
	if additional.Kind != yaml.MappingNode || additional.Decode(&one) != nil {
		return "unknown"
	}
	return s.tsType(&one, "")
}

// writeComment writes a description as a comment of lines that fit into 120 columns.
func writeComment(b *strings.Builder, indent, text string) {
	lines := wrapped(text, 120-len(indent)-len(" *  */"))
	switch len(lines) {
	case 0:
	case 1:
		fmt.Fprintf(b, "%s/** %s */\n", indent, lines[0])
	default:
		fmt.Fprintf(b, "%s/**\n%s * %s\n%s */\n", indent, indent, strings.Join(lines, "\n"+indent+" * "), indent)
	}
}

func wrapped(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		if n := len(lines) - 1; n >= 0 && len(lines[n])+1+len(word) <= width {
			lines[n] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
