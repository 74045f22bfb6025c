package main

import (
	"fmt"
	"strings"

	"reprise/cmd/reprise/internal/words"
)

// advise returns the message for a command line with a verb or flag that the grammar does not have but another word
// stands for, and "" for others.
func advise(args []string) string {
	at := line{node: model().Node}
	for _, word := range args {
		name, _, _ := strings.Cut(word, "=")
		switch {
		case at.over || word == "--":
			return ""
		case strings.HasPrefix(word, "--") && at.find(name) == nil:
			for _, flag := range words.Flags[name[2:]] {
				if at.find("--"+flag) != nil {
					return fmt.Sprintf("unknown flag %s, did you mean %q?", name, "--"+flag)
				}
			}
			return ""
		case strings.HasPrefix(word, "-"):
		default:
			before := at.node
			if at.step(word); at.node == before && len(before.Children) > 0 {
				if verb := words.Verbs[word]; verb != "" && before.Parent == nil {
					return fmt.Sprintf("there is no verb %s, did you mean %q?", word, verb)
				}
				return ""
			}
		}
	}
	return ""
}
