package api_test

import (
	"slices"
	"strings"
	"testing"
)

// TestOpenAPIReferencesStandAlone: what stands beside a $ref is legal in OpenAPI 3.1, but generators of clients drop
// either the reference or the rest.
func TestOpenAPIReferencesStandAlone(t *testing.T) {
	walk(theContract().root, "#", func(pointer string, value map[string]any) {
		if ref, ok := value["$ref"].(string); ok && len(value) > 1 {
			t.Errorf("%s: $ref %s beside %d other keywords; use allOf", pointer, ref, len(value)-1)
		}
	})
}

// TestOpenAPIKeysAreWords: an unquoted comma in a flow mapping makes a key of the rest of a sentence.
func TestOpenAPIKeysAreWords(t *testing.T) {
	walk(theContract().root, "#", func(pointer string, value map[string]any) {
		for key := range value {
			if strings.Contains(key, " ") {
				t.Errorf("%s has a key %q; quote the text before it", pointer, key)
			}
		}
	})
}

// TestOpenAPIBodiesAreNamed: generators name the type of a body after its schema in components.
func TestOpenAPIBodiesAreNamed(t *testing.T) {
	bodies := 0
	walk(theContract().root, "#", func(pointer string, value map[string]any) {
		content, ok := value["content"].(map[string]any)
		if !ok {
			return
		}
		for media, body := range content {
			schema, _ := body.(map[string]any)["schema"].(map[string]any)
			bodies++
			for _, keyword := range []string{"properties", "anyOf", "oneOf", "if"} {
				if _, inline := schema[keyword]; inline {
					t.Errorf("%s: the body %s has %q in place of a $ref", pointer, media, keyword)
				}
			}
		}
	})
	if bodies < 40 {
		t.Errorf("found only %d bodies", bodies)
	}
}

// walk calls visit for each mapping of the document but those of examples.
func walk(value any, pointer string, visit func(pointer string, value map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		visit(pointer, value)
		for key, child := range value {
			if !slices.Contains([]string{"example", "examples"}, key) {
				walk(child, pointer+"/"+key, visit)
			}
		}
	case []any:
		for _, child := range value {
			walk(child, pointer+"/-", visit)
		}
	}
}
