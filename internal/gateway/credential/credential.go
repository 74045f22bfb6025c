package credential

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Texts are the values of headers and variables by their names, with references in them.
type Texts struct{ Header, Env map[string]string }

// Principal is the caller of an upstream.
type Principal struct {
	Tenant, Name string
	// Claims are the claims of the principal's token, or nil if it has no token.
	Claims map[string]string
}

// Secrets returns a secret of a principal. The error is fs.ErrNotExist if there is none.
type Secrets func(p *Principal, secret string) (string, error)

// Templates are the templates of one upstream. They are immutable.
type Templates struct{ header, env map[string]template }

// New parses templates. The error names the invalid template.
func New(texts Texts) (*Templates, error) {
	t := &Templates{}
	var err error
	if t.header, err = parseAll(texts.Header); err != nil {
		return nil, err
	}
	if t.env, err = parseAll(texts.Env); err != nil {
		return nil, err
	}
	if t.env["PATH"].refers() {
		return nil, errors.New("PATH cannot depend on the caller")
	}
	return t, nil
}

func parseAll(texts map[string]string) (map[string]template, error) {
	parsed := make(map[string]template, len(texts))
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		t, err := parse(texts[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		parsed[key] = t
	}
	return parsed, nil
}

// Refer reports whether a value depends on the caller.
func (t *Templates) Refer() bool {
	return len(t.names(func(p part) bool { return p.kind != literal })) > 0
}

// Claims are the names of the claims that are referred to, sorted.
func (t *Templates) Claims() []string { return t.names(func(p part) bool { return p.kind == claim }) }

// Secrets are the names of the secrets that are referred to, sorted.
func (t *Templates) Secrets() []string { return t.names(func(p part) bool { return p.kind == secret }) }

// names are the texts of the parts that match, sorted.
func (t *Templates) names(match func(part) bool) (names []string) {
	for _, values := range []map[string]template{t.header, t.env} {
		for _, value := range values {
			for _, p := range value {
				if match(p) {
					names = append(names, p.text)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Values are the headers and variables for one principal.
type Values struct{ Header, Env map[string]string }

// addTo writes the values to a hash so that others give another one.
func (v *Values) addTo(sum hash.Hash) {
	for _, values := range []map[string]string{v.Header, v.Env} {
		fmt.Fprintf(sum, "%d ", len(values))
		for _, key := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(sum, "%d %s %d %s ", len(key), key, len(values[key]), values[key])
		}
	}
}

// MissingError is the error for a principal that lacks a value for an upstream. It contains no values.
type MissingError struct {
	// What is missing, for the principal: the second part of a sentence.
	What string
	// Err is the reason why a secret cannot be read, for the log, or nil if the secret does not exist.
	Err error
}

func (e *MissingError) Error() string { return "it is called with " + e.What }

// maxValue bounds a header or a variable, in bytes.
const maxValue = 16 << 10

// Fill inserts the values of the caller. The error is a *MissingError.
func (t *Templates) Fill(p *Principal, secrets Secrets) (*Values, error) {
	f := &filler{p: p, secrets: secrets}
	header, err := f.fillAll(t.header, true)
	if err != nil {
		return nil, err
	}
	env, err := f.fillAll(t.env, false)
	if err != nil {
		return nil, err
	}
	return &Values{Header: header, Env: env}, nil
}

// filler fills the templates of an upstream for one principal.
type filler struct {
	p       *Principal
	secrets Secrets
}

func (f *filler) fillAll(templates map[string]template, inHeader bool) (map[string]string, error) {
	values := make(map[string]string, len(templates))
	for _, key := range slices.Sorted(maps.Keys(templates)) {
		var value strings.Builder
		for _, p := range templates[key] {
			text, err := f.fill(p, inHeader)
			if err != nil {
				return nil, err
			}
			value.WriteString(text)
		}
		if templates[key].refers() && value.Len() > maxValue {
			return nil, &MissingError{What: fmt.Sprintf("%s, which would have more than %d bytes", key, maxValue)}
		}
		values[key] = value.String()
	}
	return values, nil
}

// fill returns what stands in the place of a part.
func (f *filler) fill(p part, inHeader bool) (string, error) {
	switch p.kind {
	case name:
		return checked("the name of who calls", f.p.Name, "there is none", inHeader)
	case tenant:
		return checked("the tenant of who calls", f.p.Tenant, "there is none", inHeader)
	case claim:
		what := fmt.Sprintf("the claim %q", p.text)
		return checked(what, f.p.Claims[p.text], "your token has none, or one that is no text", inHeader)
	case secret:
		return f.secret(p.text, inHeader)
	}
	return p.text, nil
}

// checked returns a value that clients have a say in, unless it is empty or could be taken for more than a part of one.
func checked(what, value, empty string, inHeader bool) (string, error) {
	bad := isControl
	if inHeader {
		bad = notInHeader
	}
	switch {
	case value == "":
		return "", &MissingError{What: what + ", and " + empty}
	case !utf8.ValidString(value) || strings.ContainsFunc(value, bad):
		return "", &MissingError{What: what + ", and yours has characters that cannot be passed on"}
	}
	return value, nil
}

func isControl(r rune) bool { return unicode.IsControl(r) }

// notInHeader reports whether a rune could end the value of a header, or begin another one.
func notInHeader(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`",;\`, r) }

// secret returns a secret of the principal.
func (f *filler) secret(of string, inHeader bool) (string, error) {
	what := fmt.Sprintf("the secret %q of %q", of, f.p.Name)
	var value string
	err := fs.ErrNotExist
	if f.secrets != nil {
		value, err = f.secrets(f.p, of)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && value == "":
		return "", &MissingError{What: what + ", and the gateway keeps none"}
	case err != nil:
		return "", &MissingError{What: what + ", which cannot be used; the log of the gateway says why", Err: err}
	}
	bad := func(r rune) bool { return r == 0 }
	if inHeader {
		bad = func(r rune) bool { return r < ' ' || r > '~' }
	}
	if strings.ContainsFunc(value, bad) {
		why := fmt.Errorf("the secret %q has characters that cannot be in a header or a variable", of)
		return "", &MissingError{What: what + ", which cannot be used; the log of the gateway says why", Err: why}
	}
	return value, nil
}

// Set are the templates of an upstream, or of several that are merged.
type Set []*Templates

// Refer reports whether a value depends on the caller.
func (s Set) Refer() bool { return slices.ContainsFunc(s, (*Templates).Refer) }

// Filled are the Values of a Set for one principal.
type Filled struct {
	// Values are the values for each upstream, nil for an upstream with a missing value.
	Values []*Values
	// Missing are the errors of the upstreams with a missing value.
	Missing []*MissingError
	// digest tells Filled from all others that differ.
	digest [sha256.Size]byte
}

// Digest is good for comparing, and says nothing about the values. It is equal for Filled that are.
func (f *Filled) Digest() [sha256.Size]byte { return f.digest }

// Fill inserts the values of the caller. The error is a *MissingError if values are missing for all upstreams.
func (s Set) Fill(p *Principal, secrets Secrets) (*Filled, error) {
	f := &Filled{Values: make([]*Values, len(s)), Missing: make([]*MissingError, len(s))}
	sum := sha256.New()
	var first *MissingError
	for i, t := range s {
		v, err := t.Fill(p, secrets)
		if missing, ok := errors.AsType[*MissingError](err); ok {
			f.Missing[i], first = missing, cmp.Or(first, missing)
			fmt.Fprint(sum, "none ")
			continue
		}
		f.Values[i] = v
		v.addTo(sum)
	}
	if first != nil && !slices.ContainsFunc(f.Values, func(v *Values) bool { return v != nil }) {
		return nil, first
	}
	sum.Sum(f.digest[:0])
	return f, nil
}
