package wire

import (
	"bytes"
	"encoding/json"
)

// Compact returns v as JSON, without the escapes that only HTML needs and without a line break. It panics if v cannot
// be encoded.
func Compact(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // the gateway encodes its own types, which hold valid JSON
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// Members returns the members of an object, and an empty map for anything else.
func Members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		m = map[string]json.RawMessage{}
	}
	return m
}

// Meta returns the members of _meta in params.
func Meta(params json.RawMessage) map[string]json.RawMessage {
	return Members(Members(params)["_meta"])
}

// Text returns a member of an object that is a string, and "" if it is not one.
func Text(raw json.RawMessage, name string) string {
	var s string
	_ = json.Unmarshal(Members(raw)[name], &s) // of another type it is ""
	return s
}

// Edit changes the members of an object, or makes one.
func Edit(raw json.RawMessage, change func(map[string]json.RawMessage)) json.RawMessage {
	m := Members(raw)
	change(m)
	return Compact(m)
}

// EditMeta changes the members of _meta in an object. An empty _meta is left out.
func EditMeta(raw json.RawMessage, change func(map[string]json.RawMessage)) json.RawMessage {
	return Edit(raw, func(m map[string]json.RawMessage) {
		meta := Members(m["_meta"])
		change(meta)
		if len(meta) == 0 {
			delete(m, "_meta")
			return
		}
		m["_meta"] = Compact(meta)
	})
}
