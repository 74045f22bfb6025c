package credential_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"reprise/internal/gateway/credential"
)

// kept are the secrets of alice; "broken" cannot be read.
func kept(p *credential.Principal, secret string) (string, error) {
	values := map[string]string{
		"github": "ghp_1 2", "empty": "", "lines": "a\nb", "injected": "x\r\nX-Admin: yes", "reference": "{{name}}",
		"nul": "a\x00b",
	}
	value, ok := values[secret]
	switch {
	case secret == "broken":
		return "", errors.New("it may be read by others")
	case p.Name != "alice@corp" || !ok:
		return "", fs.ErrNotExist
	}
	return value, nil
}

func alice(claims map[string]string) *credential.Principal {
	return &credential.Principal{Tenant: "acme", Name: "alice@corp", Claims: claims}
}

// fill returns what header or variable comes to.
func fill(t *testing.T, inHeader bool, text string, p *credential.Principal) (string, error) {
	t.Helper()
	texts := credential.Texts{Env: map[string]string{"X": text}}
	if inHeader {
		texts = credential.Texts{Header: texts.Env}
	}
	templates, err := credential.New(texts)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	values, err := templates.Fill(p, kept)
	if err != nil {
		return "", err
	}
	if inHeader {
		return values.Header["X"], nil
	}
	return values.Env["X"], nil
}

func TestReferencesArePutIn(t *testing.T) {
	p := alice(map[string]string{
		"email": "a@b.org", "https://x.org/id": "7", "odd": "{{secrets.github}}", "wide": "é b",
	})
	for text, want := range map[string]string{
		"plain":                           "plain",
		"":                                "",
		"{{name}}":                        "alice@corp",
		"{{ tenant }}/{{name}}.":          "acme/alice@corp.",
		"<{{claims.email}}>":              "<a@b.org>",
		"{{claims.https://x.org/id}}":     "7",
		"Bearer {{secrets.github}}":       "Bearer ghp_1 2",
		"{{{{name}} {{{{{{tenant}} }}":    "{{name}} {{acme }}",
		"{{claims.odd}}":                  "{{secrets.github}}",
		"{{secrets.reference}}":           "{{name}}",
		credential.Escape("{{claims.x}}"): "{{claims.x}}",
	} {
		for _, inHeader := range []bool{false, true} {
			if got, err := fill(t, inHeader, text, p); err != nil || got != want {
				t.Errorf("%q in a header %v: %q, %v; want %q", text, inHeader, got, err, want)
			}
		}
	}
	for text, want := range map[string]string{"{{claims.wide}}": "é b", "{{secrets.lines}}": "a\nb"} {
		if got, err := fill(t, false, text, p); err != nil || got != want {
			t.Errorf("%q in a variable: %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestMissingAttributeIsAnError: a template that needs a missing attribute fails, and the error shows no value.
func TestMissingAttributeIsAnError(t *testing.T) {
	p := alice(map[string]string{"empty": "", "spaced": "s3cret x"})
	nobody := &credential.Principal{Tenant: "acme"}
	for _, tt := range []struct {
		inHeader bool
		text     string
		p        *credential.Principal
		names    string
	}{
		{true, "{{claims.email}}", p, `"email"`},
		{true, "{{claims.Empty}}", p, `"Empty"`},
		{true, "{{claims.empty}}", p, `"empty"`},
		{true, "{{claims.spaced}}", p, `"spaced"`},
		{true, "{{name}}", nobody, "name"},
		{false, "{{claims.email}}", nobody, `"email"`},
		{true, "Bearer {{secrets.gitlab}}", p, `"gitlab"`},
		{true, "Bearer {{secrets.github}}", nobody, `"github"`},
		{true, "{{secrets.empty}}", p, `"empty"`},
		{true, "{{secrets.broken}}", p, `"broken"`},
		{true, "{{secrets.lines}}", p, `"lines"`},
		{true, "{{secrets.injected}}", p, `"injected"`},
		{false, "{{secrets.nul}}", p, `"nul"`},
	} {
		got, err := fill(t, tt.inHeader, tt.text, tt.p)
		missing, ok := errors.AsType[*credential.MissingError](err)
		if !ok || !strings.Contains(missing.What, tt.names) || strings.Contains(missing.What, "s3cret") {
			t.Fatalf("%q: %q, %v", tt.text, got, err)
		}
		if strings.Contains(missing.What, "log") != (missing.Err != nil) {
			t.Errorf("%q: for the log %v", tt.text, missing.Err)
		}
	}
}

// FuzzClaimsDoNotBreakOut: whatever a claim holds, it is one value of one header, between what stands beside it.
func FuzzClaimsDoNotBreakOut(f *testing.F) {
	for _, seed := range []string{
		"a", "a\r\nX-Admin: 1", "a\nb", "{{name}}", "{{secrets.github}}", "}}", `a", b="c`, "a, b", "é", "\xff", " ",
		"a;b", "\x7f",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, claim string) {
		got, err := fill(t, true, "<{{claims.x}}|{{name}}>", alice(map[string]string{"x": claim}))
		if err != nil {
			return
		}
		if got != "<"+claim+"|alice@corp>" || strings.ContainsAny(got, "\r\n\x00\",;\\ ") {
			t.Fatalf("the claim %q gives %q", claim, got)
		}
		r := &http.Request{
			Method: http.MethodGet, URL: &url.URL{Path: "/"}, Host: "x",
			Header: http.Header{"X": {got}, "User-Agent": nil},
		}
		var wire strings.Builder
		// Four lines: that of the request, Host, X, and the end.
		if err := r.Write(&wire); err != nil || strings.Count(wire.String(), "\r\n") != 4 {
			t.Errorf("the claim %q makes the request %q, %v", claim, wire.String(), err)
		}
	})
}

func TestWrongTemplatesAreRefused(t *testing.T) {
	for _, text := range []string{
		"{{", "{{name", "{{}}", "{{Name}}", "{{claims.}}", "{{claims}}", "{{secrets.}}", "{{secrets.../bob/x}}",
		"{{secrets.a b}}",
		"{{env.HOME}}", "{{name|upper}}", "{{if name}}x{{end}}", "{{secrets..hidden}}",
	} {
		if _, err := credential.New(credential.Texts{Header: map[string]string{"X": text}}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := credential.New(credential.Texts{Env: map[string]string{"PATH": "/{{name}}"}}); err == nil {
		t.Error("PATH depends on who calls")
	}
}

func TestNamesThatAreReferredTo(t *testing.T) {
	templates, err := credential.New(credential.Texts{
		Header: map[string]string{"A": "{{claims.b}} {{claims.a}}", "B": "{{name}}"},
		Env:    map[string]string{"C": "{{claims.a}}{{secrets.s}}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, templates.Claims()); diff != "" || !templates.Refer() {
		t.Errorf("%s, refers %v", diff, templates.Refer())
	}
	plain, err := credential.New(credential.Texts{Header: map[string]string{"A": "{{{{name}}"}})
	if err != nil || plain.Refer() {
		t.Errorf("a text refers to who calls; %v", err)
	}
}

// TestDigestsDiffer: each pair of principals that are called with something else has another digest.
func TestDigestsDiffer(t *testing.T) {
	templates, err := credential.New(credential.Texts{Env: map[string]string{"A": "{{claims.a}}", "B": "{{claims.b}}"}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := credential.New(credential.Texts{Header: map[string]string{"A": "{{claims.b}}"}})
	if err != nil {
		t.Fatal(err)
	}
	set := credential.Set{templates, other}
	seen := map[[32]byte]string{}
	for _, p := range []*credential.Principal{
		alice(map[string]string{"a": "1", "b": "2"}), alice(map[string]string{"a": "12", "b": " "}),
		alice(map[string]string{"a": "1 2", "b": "3"}), alice(map[string]string{"a": "1", "b": "2 3"}),
		alice(map[string]string{"b": "2"}),
	} {
		text := fmt.Sprint(p.Claims)
		filled, err := set.Fill(p, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := set.Fill(p, nil)
		if err != nil || again.Digest() != filled.Digest() {
			t.Errorf("%s has two digests, %v", text, err)
		}
		if before, twice := seen[filled.Digest()]; twice {
			t.Errorf("%s and %s have one digest", before, text)
		}
		seen[filled.Digest()] = text
	}
	if _, err := set.Fill(alice(nil), nil); err == nil {
		t.Error("nothing is missing where no upstream can be called")
	}
}
