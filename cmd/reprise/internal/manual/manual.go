// Package manual writes manual pages of a grammar of kong.
package manual

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Name is what a page is called: "reprise-store-copy".
func Name(node *kong.Node) string { return strings.ReplaceAll(Command(node), " ", "-") }

// Command is how a verb is called: "reprise store copy".
func Command(node *kong.Node) string {
	if node.Parent == nil {
		return "reprise"
	}
	return Command(node.Parent) + " " + node.Name
}

// Page is the page of a verb, or of the program, in the macros of man(7).
func Page(node *kong.Node) []byte {
	var b bytes.Buffer
	name := Name(node)
	fmt.Fprintf(&b, ".TH %s 1 \"\" reprise\n.SH NAME\n%s \\- ", strings.ToUpper(name), roff(name))
	if node.Parent == nil {
		fmt.Fprintln(&b, "run commands and publish events over connections that break")
	} else {
		fmt.Fprintln(&b, roff(strings.TrimSuffix(node.Help, ".")))
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n.SH DESCRIPTION\n",
		roff(Command(node)), synopsis(node))
	text := node.Help
	if node.Detail != "" {
		text += "\n\n" + node.Detail
	}
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			fmt.Fprintln(&b, ".PP")
		}
		for n, line := range strings.Split(paragraph, "\n") {
			if n > 0 && strings.HasPrefix(line, "  ") { // an example stays a line
				fmt.Fprintln(&b, ".br")
			}
			fmt.Fprintln(&b, roff(strings.TrimSpace(line)))
		}
	}
	verbs(&b, node)
	arguments(&b, node)
	flagsOf(&b, node)
	if node.Parent != nil {
		fmt.Fprint(&b, ".SH SEE ALSO\n.BR reprise (1)\n")
	}
	return b.Bytes()
}

// synopsis is what follows the name in a line of usage.
func synopsis(node *kong.Node) string {
	if len(node.Children) > 0 {
		return "VERB [flags]"
	}
	text := "[flags]"
	for _, arg := range node.Positional {
		text += " " + roff(arg.Summary())
	}
	return text
}

func verbs(b *bytes.Buffer, node *kong.Node) {
	if len(node.Children) == 0 {
		return
	}
	fmt.Fprintln(b, ".SH VERBS")
	for _, leaf := range node.Leaves(true) {
		fmt.Fprintf(b, ".TP\n.BR %s (1)\n%s\n", roff(Name(leaf)), roff(leaf.Help))
	}
}

func arguments(b *bytes.Buffer, node *kong.Node) {
	if len(node.Positional) == 0 {
		return
	}
	fmt.Fprintln(b, ".SH ARGUMENTS")
	for _, arg := range node.Positional {
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff(arg.Name), roff(arg.Help))
	}
}

// flagsOf writes the flags of a verb, those without a heading first.
func flagsOf(b *bytes.Buffer, node *kong.Node) {
	fmt.Fprintln(b, ".SH OPTIONS")
	var headings []string
	flags := map[string][]*kong.Flag{}
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		heading := ""
		if flag.Group != nil {
			heading = flag.Group.Title
		}
		if len(flags[heading]) == 0 && heading != "" {
			headings = append(headings, heading)
		}
		flags[heading] = append(flags[heading], flag)
	}
	for _, heading := range append([]string{""}, headings...) {
		if heading != "" {
			fmt.Fprintf(b, ".SS %s\n", roff(strings.TrimSuffix(heading, ":")))
		}
		for _, flag := range flags[heading] {
			flagOf(b, flag)
		}
	}
}

func flagOf(b *bytes.Buffer, flag *kong.Flag) {
	fmt.Fprint(b, ".TP\n")
	if flag.Short != 0 {
		fmt.Fprintf(b, "\\fB\\-%c\\fR, ", flag.Short)
	}
	fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", roff(flag.Name))
	if !flag.IsBool() {
		fmt.Fprintf(b, "=\\fI%s\\fR", roff(flag.FormatPlaceHolder()))
	}
	fmt.Fprintln(b)
	fmt.Fprintln(b, roff(flag.Help))
	for _, env := range flag.Envs {
		fmt.Fprintf(b, "Environment: \\fB%s\\fR.\n", roff(env))
	}
}

// roff escapes text for a line of roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
