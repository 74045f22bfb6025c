package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// manCmd writes manual pages.
type manCmd struct {
	Dir string `placeholder:"DIR" env:"-" help:"Write all pages to this directory, for example ~/.local/share/man/man1."`

	Verb []string `arg:"" optional:"" help:"Verb whose page is printed. Default: the page of the program."`
}

// Help is shown below the usage.
func (*manCmd) Help() string {
	return `For example, to read the page of the verb run: reprise man run | man -l -`
}

// Run writes the manual pages.
func (c *manCmd) Run() error {
	app := model()
	if c.Dir == "" {
		node := app.Node
		for _, verb := range c.Verb {
			at := line{node: node}
			if at.step(verb); at.node == node {
				return usage("man: there is no verb %q", strings.Join(c.Verb, " "))
			}
			node = at.node
		}
		_, err := stdout.Write(manPage(node))
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	for _, node := range append([]*kong.Node{app.Node}, app.Leaves(true)...) {
		name := filepath.Join(c.Dir, manName(node)+".1")
		if err := os.WriteFile(name, manPage(node), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manName is what a page is called: "reprise-store-copy".
func manName(node *kong.Node) string { return strings.ReplaceAll(commandName(node), " ", "-") }

// commandName is how a verb is called: "reprise store copy".
func commandName(node *kong.Node) string {
	if node.Parent == nil {
		return "reprise"
	}
	return commandName(node.Parent) + " " + node.Name
}

// manPage is the page of a verb, or of the program, in the macros of man(7).
func manPage(node *kong.Node) []byte {
	var b bytes.Buffer
	name := manName(node)
	fmt.Fprintf(&b, ".TH %s 1 \"\" reprise\n.SH NAME\n%s \\- ", strings.ToUpper(name), roff(name))
	if node.Parent == nil {
		fmt.Fprintln(&b, "run commands and publish events over connections that break")
	} else {
		fmt.Fprintln(&b, roff(strings.TrimSuffix(node.Help, ".")))
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n.SH DESCRIPTION\n",
		roff(commandName(node)), synopsis(node))
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
	manVerbs(&b, node)
	manArguments(&b, node)
	manFlags(&b, node)
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

func manVerbs(b *bytes.Buffer, node *kong.Node) {
	if len(node.Children) == 0 {
		return
	}
	fmt.Fprintln(b, ".SH VERBS")
	for _, leaf := range node.Leaves(true) {
		fmt.Fprintf(b, ".TP\n.BR %s (1)\n%s\n", roff(manName(leaf)), roff(leaf.Help))
	}
}

func manArguments(b *bytes.Buffer, node *kong.Node) {
	if len(node.Positional) == 0 {
		return
	}
	fmt.Fprintln(b, ".SH ARGUMENTS")
	for _, arg := range node.Positional {
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff(arg.Name), roff(arg.Help))
	}
}

// manFlags writes the flags of a verb, those without a heading first.
func manFlags(b *bytes.Buffer, node *kong.Node) {
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
			manFlag(b, flag)
		}
	}
}

func manFlag(b *bytes.Buffer, flag *kong.Flag) {
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
