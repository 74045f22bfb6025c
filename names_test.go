package reprise_test

import (
	"strings"
	"testing"

	"reprise"
)

// TestRefusedNameQuotesTheCharacter: the error shows the character that is not allowed, also one of several bytes.
func TestRefusedNameQuotesTheCharacter(t *testing.T) {
	for name, want := range map[string]string{
		"a b": "' '", "für": "'ü'", "a/\u2028": `'\u2028'`, "a\xffb": "'\ufffd'", "ü:x": "'ü'",
	} {
		for what, err := range map[string]error{
			"stream": reprise.StreamKey{Tenant: "default", Name: name}.Validate(),
			"tenant": reprise.StreamKey{Tenant: reprise.Tenant(name), Name: "x"}.Validate(),
		} {
			if err == nil || !strings.HasSuffix(err.Error(), "holds "+want) && what == "stream" ||
				!strings.Contains(err.Error(), "holds ") {
				t.Errorf("%s %q: %v, want it to end in %s", what, name, err, want)
			}
		}
	}
}
