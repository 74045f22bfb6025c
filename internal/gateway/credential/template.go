package credential

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// template is a text with references, in the order of its parts.
type template []part

// part is a piece of text, or a reference to what kind says, of which text is the name.
type part struct {
	kind kind
	text string
}

type kind int

const (
	literal kind = iota
	name
	tenant
	claim
	secret
)

const (
	open, shut = "{{", "}}"
	claims     = "claims."
	secrets    = "secrets."
)

// secretNames matches the names of secrets.
var secretNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)
})

// Escape returns a text that stands for s in a template.
func Escape(s string) string { return strings.ReplaceAll(s, open, open+open) }

// parse reads a template.
func parse(text string) (t template, err error) {
	for {
		before, rest, found := strings.Cut(text, open)
		t = t.withText(before)
		if !found {
			return t, nil
		}
		if after, ok := strings.CutPrefix(rest, open); ok {
			t, text = t.withText(open), after
			continue
		}
		reference, rest, found := strings.Cut(rest, shut)
		if !found {
			return nil, fmt.Errorf("there is a %q without a %q; %q stands for itself as %q",
				open, shut, open, open+open)
		}
		p, err := parseReference(strings.TrimSpace(reference))
		if err != nil {
			return nil, err
		}
		t, text = append(t, p), rest
	}
}

func parseReference(text string) (part, error) {
	switch {
	case text == "name":
		return part{kind: name}, nil
	case text == "tenant":
		return part{kind: tenant}, nil
	}
	if of, ok := strings.CutPrefix(text, claims); ok && of != "" {
		return part{claim, of}, nil
	}
	if of, ok := strings.CutPrefix(text, secrets); ok {
		if !secretNames().MatchString(of) {
			return part{}, fmt.Errorf("%q is not the name of a secret: 1 to 64 letters, digits, '.', '_' and '-'", of)
		}
		return part{secret, of}, nil
	}
	return part{}, fmt.Errorf("%q is none of {{name}}, {{tenant}}, {{claims.CLAIM}} and {{secrets.NAME}}",
		open+text+shut)
}

// withText appends a piece of text.
func (t template) withText(text string) template {
	if last := len(t) - 1; last >= 0 && t[last].kind == literal {
		t[last].text += text
		return t
	}
	if text == "" {
		return t
	}
	return append(t, part{text: text})
}

// refers reports whether the text depends on the caller.
func (t template) refers() bool { return len(t) > 1 || len(t) == 1 && t[0].kind != literal }
