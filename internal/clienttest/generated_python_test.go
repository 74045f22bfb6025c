package clienttest_test

import (
	"fmt"
	"slices"
	"strings"
)

// pythonNames are the answers whose classes are generated, with the names that they have in the client for Python.
// Requests are parameters there, and pages are of one class.
var pythonNames = map[string]string{
	"Execution":       "Execution",
	"File":            "FileInfo",
	"Interpreter":     "Interpreter",
	"Key":             "Key",
	"PublishedEvents": "Published",
	"Quotas":          "Quotas",
	"Replica":         "Replica",
	"Schedule":        "Schedule",
	"Screen":          "Screen",
	"Session":         "Session",
	"Stream":          "Stream",
	"Task":            "Task",
	"Ticket":          "Ticket",
	"Watch":           "Watch",
	"Webhook":         "Webhook",
	"WebhookAnswer":   "WebhookAnswer",
}

// pythonTyped are the dictionaries of the client for Python that objects have as members.
var pythonTyped = map[string]string{
	"Window": `field(default_factory=lambda: Window(earliest="", tail=""))`, "Quota": "field(default_factory=dict)",
}

// pythonMembers are members that differ from the rule: an empty value stands for null and for what is missing.
var pythonMembers = map[string]string{
	"Execution.signal":   "str | None = None",
	"Webhook.progress":   "Object = field(default_factory=dict)",
	"Key.limits":         "dict[str, int] = field(default_factory=dict)",
	"Key.key":            pythonSecret,
	"Webhook.secret":     pythonSecret,
	"Ticket.ticket":      pythonSecret,
	"Ticket.events":      pythonSecret,
	"Screen.paint":       pythonSecret, // no secret, but long
	"Schedule.execution": "Object = field(default_factory=dict)",
}

const pythonSecret = `str = field(default="", repr=False)`

// python returns a module with all classes.
func (s *schemas) python() string {
	var b strings.Builder
	b.WriteString(`"""The answers of the API. Generated from openapi.yaml by "make generate"."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ._model import Model, Object, Quota, Window
`)
	for _, name := range s.names {
		class, ok := pythonNames[name]
		if !ok {
			continue
		}
		one := s.by[name]
		fmt.Fprintf(&b, "\n\n@dataclass(frozen=True)\nclass %s(Model):\n", class)
		fmt.Fprintf(&b, "    \"\"\"%s\"\"\"\n\n", strings.Join(wrapped(one.Description, 118), "\n    "))
		for _, member := range one.Properties.names {
			for _, line := range wrapped(s.pyAbout(one.Properties.by[member]), 121) {
				fmt.Fprintf(&b, "    #: %s\n", line)
			}
			kind, ok := pythonMembers[name+"."+member]
			if !ok {
				kind = s.pyMember(one.Properties.by[member], slices.Contains(one.Required, member))
			}
			fmt.Fprintf(&b, "    %s: %s\n", member, kind)
		}
	}
	return b.String()
}

// pyAbout returns the description of a member, with the values that it has if they are few.
func (s *schemas) pyAbout(one *schema) string {
	text := one.Description
	for _, part := range slices.Concat([]*schema{one}, one.AllOf, one.OneOf) {
		if name := refName(part); name != "" {
			part = s.by[name]
		}
		if text == "" {
			text = part.Description
		}
		if part.Enum != nil && part.Enum[0] != "" {
			text += ` One of "` + strings.Join(part.Enum, `", "`) + `".`
		}
	}
	return text
}

// pyMember returns the annotation and the default of a member.
func (s *schemas) pyMember(one *schema, required bool) string {
	kind, nullable := s.pyType(one)
	switch {
	case pythonTyped[kind] != "":
		return kind + " = " + pythonTyped[kind]
	case kind == "datetime":
		return "datetime | None = None"
	case kind == "str":
		return `str = ""`
	case kind == "bool":
		return "bool = False"
	case kind == "int" && !nullable:
		return "int = 0"
	case strings.HasPrefix(kind, "list["):
		item := strings.TrimSuffix(strings.TrimPrefix(kind, "list["), "]")
		if s.isClass(item) {
			return fmt.Sprintf(`%s = field(default_factory=list, metadata={"of": %s})`, kind, item)
		}
		return kind + " = field(default_factory=list)"
	case kind == "dict[str, str]", strings.HasPrefix(kind, "dict[") && required && !nullable:
		return kind + " = field(default_factory=dict)"
	}
	return kind + " | None = None"
}

func (s *schemas) isClass(name string) bool { _, ok := pythonNames[name]; return ok }

// pyType returns the type of the values of a schema, and whether null is one.
func (s *schemas) pyType(one *schema) (kind string, nullable bool) {
	if one.Ref != "" {
		name := refName(one)
		if pythonTyped[name] != "" || s.isClass(name) {
			return name, false
		}
		if name == "Time" {
			return "datetime", false
		}
		return s.pyType(s.by[name])
	}
	for _, part := range slices.Concat(one.AllOf, one.OneOf) {
		if part.Type == "null" {
			nullable = true
		} else {
			kind, _ = s.pyType(part)
		}
	}
	types, _ := one.Type.([]any)
	if one.Type != nil && types == nil {
		types = []any{one.Type}
	}
	for _, each := range types {
		switch each {
		case "null":
			nullable = true
		case "string":
			kind = "str"
			if one.Format == "date-time" {
				kind = "datetime"
			}
		case "integer":
			kind = "int"
		case "boolean":
			kind = "bool"
		case "array":
			item, _ := s.pyType(one.Items)
			kind = "list[" + item + "]"
		case "object":
			kind = s.pyDict(one)
		}
	}
	if kind == "" && one.Enum != nil {
		kind = "str"
	}
	return kind, nullable
}

// pyDict returns the type of an object: a dictionary, of one type if all its members have it.
func (s *schemas) pyDict(one *schema) string {
	values := map[string]bool{}
	for _, member := range one.Properties.by {
		kind, _ := s.pyType(member)
		values[kind] = true
	}
	var additional schema
	if one.Properties.names == nil && one.Additional.Decode(&additional) == nil {
		kind, _ := s.pyType(&additional)
		values[kind] = true
	}
	for kind := range values {
		if len(values) == 1 && (kind == "str" || kind == "int") {
			return "dict[str, " + kind + "]"
		}
	}
	return "dict[str, Any]"
}
