package storetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// unchecked are the sentences with "must" that no Store can break.
var unchecked = []string{
	`Package storetest checks every rule below that says "must".`,
}

// TestEveryRuleHasACheck holds the quotes of the suite against the contract: every
// sentence of store.go with "must" is quoted by a check.
func TestEveryRuleHasACheck(t *testing.T) {
	contract := contractText(t)
	quoted := map[string]bool{}
	for _, group := range suite() {
		for _, c := range group.checks {
			quoted[c.rule] = true
		}
	}
	for _, sentence := range sentences(contract) {
		if strings.Contains(sentence, " must ") && !quoted[sentence] && !slices.Contains(unchecked, sentence) {
			t.Errorf("no check quotes the rule: %s", sentence)
		}
	}
	own := []string{ruleNames, ruleTenants, rulePersistent} // of stream.go, and of Harness
	for rule := range quoted {
		if !slices.Contains(own, rule) && !strings.Contains(contract, rule) {
			t.Errorf("store.go has no such sentence: %s", rule)
		}
	}
}

// contractText is all that the comments of store.go say, in one line.
func contractText(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../store.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	ast.Inspect(file, func(n ast.Node) bool {
		if group, ok := n.(*ast.CommentGroup); ok {
			all.WriteString(strings.Join(strings.Fields(group.Text()), " "))
			all.WriteString("\n")
		}
		return true
	})
	return all.String()
}

func sentences(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		for s := range strings.SplitSeq(strings.TrimSpace(line), ". ") {
			all = append(all, strings.TrimSuffix(s, ".")+".")
		}
	}
	return all
}
