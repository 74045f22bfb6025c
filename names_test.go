package reprise_test

import (
	"fmt"
	"testing"

	"reprise"
)

// TestRefusedNameQuotesTheCharacter: the error shows the character that is not allowed, also one of several bytes.
func TestRefusedNameQuotesTheCharacter(t *testing.T) {
	for name, quoted := range map[string]string{
		"a b": "' '", "für": "'ü'", "a/\u2028": `'\u2028'`, "a\xffb": "'\ufffd'", "ü:x": "'ü'",
	} {
		want := fmt.Sprintf("invalid: stream name %q holds %s", name, quoted)
		if got := fmt.Sprint(reprise.StreamKey{Tenant: "default", Name: name}.Validate()); got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
	want := `invalid: tenant "für" holds 'ü'`
	if got := fmt.Sprint(reprise.StreamKey{Tenant: "für", Name: "x"}.Validate()); got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
