package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"reprise/cmd/reprise/internal/manual"
)

// TestSettingsReference: docs/settings.md has every setting of serve and gateway; -update writes it.
func TestSettingsReference(t *testing.T) {
	t.Parallel()
	const path = "../../docs/settings.md"
	var b bytes.Buffer
	fmt.Fprint(&b, `# Settings

This page lists the settings of `+"`reprise serve` and `reprise gateway`"+`. It is generated from their flags
(`+"`go test ./cmd/reprise -run SettingsReference -update`"+`). [operate.md](operate.md#settings) says how flags, variables and the file go together.
`)
	for _, node := range model().Leaves(true) {
		if name := manual.Command(node); name == "reprise serve" || name == "reprise gateway" {
			fmt.Fprintf(&b, "\n## %s\n", name)
			heading := "-"
			for _, flag := range slices.Concat(node.AllFlags(true)...) {
				if flag.Name == "help" || flag.Name == "version" {
					continue
				}
				group := ""
				if flag.Group != nil {
					group = strings.TrimSuffix(flag.Group.Title, ":")
				}
				if group != heading {
					if heading = group; group != "" {
						fmt.Fprintf(&b, "\n### %s of %s\n", group, node.Name)
					}
					fmt.Fprint(&b, "\n| flag | variable | meaning |\n|---|---|---|\n")
				}
				variable := ""
				if len(flag.Envs) > 0 {
					variable = "`" + flag.Envs[0] + "`"
				}
				value := ""
				if !flag.IsBool() {
					value = " " + flag.FormatPlaceHolder()
				}
				fmt.Fprintf(&b, "| `--%s%s` | %s | %s |\n", flag.Name, value, variable,
					strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(flag.Help))
			}
		}
	}
	if *update {
		check(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	kept, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Equal(kept, b.Bytes()) {
		t.Errorf("%s is not that of the flags: go test ./cmd/reprise -run SettingsReference -update", path)
	}
}
