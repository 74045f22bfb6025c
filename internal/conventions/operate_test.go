package conventions_test

import (
	"os"
	"strings"
	"testing"
)

// TestOperatorsQuestionsAreFound: a search of docs/operate.md for the words of a question finds its heading before
// any other line.
func TestOperatorsQuestionsAreFound(t *testing.T) {
	top(t)
	text, err := os.ReadFile("docs/operate.md")
	check(t, err)
	_, questions, found := strings.Cut(string(text), "\n## Questions\n")
	if !found {
		t.Fatal("docs/operate.md has no questions")
	}
	for _, words := range []string{
		"log level", "token rotated", "token systemd", "cursor keys rotated", "encrypted keys", "profiled", "drain",
		"limits commands default", "ports addresses", "version skew", "backup restored", "rolled back", "upgraded",
		"how long kept", "disk full", "memory disk need", "files data where", "monitored alert", "several servers",
		"proxy tls", "get access", "who audit", "another store",
	} {
		hit := ""
		for line := range strings.Lines(questions) {
			has := true
			for word := range strings.FieldsSeq(words) {
				has = has && strings.Contains(strings.ToLower(line), word)
			}
			if has {
				hit = strings.TrimSpace(line)
				break
			}
		}
		if !strings.HasPrefix(hit, "### ") {
			t.Errorf("the first hit of %q is %q", words, hit)
		}
	}
	if n := strings.Count(questions, "\n### "); n < 21 {
		t.Errorf("docs/operate.md answers %d questions", n)
	}
}
