package main

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"reprise/client"
	"reprise/cmd/reprise/internal/contexts"
	"reprise/cmd/reprise/internal/printable"
)

// completionCmd prints the completion script of a shell.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help is shown below the usage.
func (*completionCmd) Help() string {
	return `Completes verbs, flags, their values, and the names of executions and streams on the server.

  bash: source <(reprise completion bash), in ~/.bashrc
  zsh:  source <(reprise completion zsh), in ~/.zshrc after compinit
  fish: reprise completion fish | source, in ~/.config/fish/config.fish`
}

// The scripts call this program with the words up to the cursor.
var (
	//go:embed completion/reprise.bash
	bashCompletion string
	//go:embed completion/reprise.zsh
	zshCompletion string
	//go:embed completion/reprise.fish
	fishCompletion string
)

// Run prints the script.
func (c *completionCmd) Run() error {
	_, err := fmt.Fprint(stdout, map[string]string{
		"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion,
	}[c.Shell])
	return err
}

// completeCmd is what the scripts call.
type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The words after the program name; the last one is incomplete."`
}

// Run prints a line for each possible word: the word, a tab, and its description. No line means a file name, or an
// unknown word.
func (c *completeCmd) Run(ctx context.Context) error {
	words := c.Words
	if len(words) == 0 {
		words = []string{""}
	}
	for _, w := range complete(ctx, model(), words) {
		fmt.Fprintf(stdout, "%s\t%s\n", w.word, w.help)
	}
	return nil
}

// candidate is a possible word at the cursor.
type candidate struct{ word, help string }

// line is a command line up to the cursor.
type line struct {
	node       *kong.Node // the verb
	flag       *kong.Flag // whose value is being typed, nil for none
	positional int        // number of arguments of the verb so far
	streams    bool       // complete names of streams
	over       bool       // behind "--", or behind the command of "run"
	path       string     // what is typed of a path
	remote     bool       // it began with ":", as cp takes paths of the server
}

// complete returns the words that can stand in place of the last of words.
func complete(ctx context.Context, app *kong.Application, words []string) []candidate {
	current, before := words[len(words)-1], words[:len(words)-1]
	colon := current == ":" || len(before) > 0 && before[len(before)-1] == ":"
	if colon && current != ":" {
		before = before[:len(before)-1]
	}
	at := readLine(app, before)
	if current == "=" || current == ":" { // bash makes a word of each
		current = ""
	}
	switch name, value, hasValue := strings.Cut(current, "="); {
	case at.over:
		return nil
	case at.flag != nil:
		return matching(values(at.flag), current, "")
	case strings.HasPrefix(current, "-") && hasValue:
		if flag := at.find(name); flag != nil {
			return matching(values(flag), value, name+"=")
		}
		return nil
	case strings.HasPrefix(current, "-"):
		return matching(at.flags(), current, "")
	case len(at.node.Children) > 0:
		return matching(verbs(at.node), current, "")
	}
	at.path, at.remote = strings.CutPrefix(current, ":")
	at.remote = at.remote || colon
	list := at.names(ctx)
	if at.remote && !colon {
		return matching(list, at.path, ":")
	}
	return matching(list, current, "")
}

// readLine determines the meaning of the words before the cursor.
func readLine(app *kong.Application, words []string) line {
	at := line{node: app.Node}
	for _, word := range words {
		switch name, _, hasValue := strings.Cut(word, "="); {
		case at.over:
		case word == "=" && at.flag != nil: // bash makes a word of it
		case at.flag != nil:
			at.flag = nil
		case word == "--":
			at.over = true
		case strings.HasPrefix(word, "-"):
			flag := at.find(name)
			if flag != nil && !flag.IsBool() && !hasValue {
				at.flag = flag
			}
			at.streams = at.streams || flag != nil && strings.HasPrefix(flag.Name, "stream")
		default:
			at.step(word)
		}
	}
	return at
}

// step handles a word that is not a flag.
func (l *line) step(word string) {
	for _, child := range l.node.Children {
		if word == child.Name || slices.Contains(child.Aliases, word) {
			l.node = child
			return
		}
	}
	l.positional++
	l.over = l.node.Passthrough || l.node.Name == "run"
}

// find returns the flag with the name "--name" or "-n".
func (l *line) find(text string) *kong.Flag {
	for _, group := range l.node.AllFlags(true) {
		for _, flag := range group {
			if text == "--"+flag.Name || flag.Short != 0 && text == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

func (l *line) flags() (list []candidate) {
	for _, group := range l.node.AllFlags(true) {
		for _, flag := range group {
			list = append(list, candidate{"--" + flag.Name, firstSentence(flag.Help)})
		}
	}
	return list
}

func verbs(node *kong.Node) (list []candidate) {
	for _, child := range node.Children {
		if !child.Hidden {
			list = append(list, candidate{child.Name, child.Help})
		}
	}
	return list
}

// suggested are values of flags that the server judges.
var suggested = map[string][]string{
	"isolation": {"none", "limits", "landlock", "bubblewrap"},
	"network":   {"on", "off"},
	"language":  {"bash", "javascript", "python"},
}

// values returns the known values of a flag or an argument.
func values(flag *kong.Flag) []candidate {
	if flag.Name == "context" {
		return candidates(contexts.Names())
	}
	if flag.Enum == "" {
		return candidates(suggested[flag.Name])
	}
	return enumOf(flag.Value)
}

func enumOf(v *kong.Value) (list []candidate) {
	if v.Enum == "" {
		return nil
	}
	return candidates(v.EnumSlice())
}

func candidates(words []string) (list []candidate) {
	for _, word := range words {
		if word != "" {
			list = append(list, candidate{word: word})
		}
	}
	return list
}

func firstSentence(text string) string {
	sentence, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(sentence, ".")
}

// completionTime bounds the requests to the server.
const completionTime = 2 * time.Second

// names returns the possible values of the argument at the cursor.
func (l *line) names(ctx context.Context) []candidate {
	args := l.node.Positional
	if len(args) == 0 {
		return nil
	}
	arg := args[min(l.positional, len(args)-1)]
	if l.positional >= len(args) && !arg.IsSlice() {
		return nil
	}
	if arg.Enum != "" {
		return enumOf(arg)
	}
	if arg.Name == "context" {
		return candidates(contexts.Names())
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	server, err := environmentConnect().clientWith(client.Options{GiveUp: -1})
	if err != nil {
		return nil
	}
	of, named := namesOf[l.node.Parent.Name]
	switch {
	case arg.Name == "stream", arg.Name == "name" && l.streams:
		return streamNames(ctx, server)
	case arg.Name == "path" && l.node.Parent.Name == "files", l.remote && l.node.Name == "cp":
		return pathNames(ctx, server, l.path)
	case arg.Name != "id" && arg.Name != "name", l.node.Parent.Name == "secrets":
		return nil
	case named:
		return of(ctx, server)
	}
	return executionNames(ctx, server)
}

// namesOf lists what a group of verbs is about.
var namesOf = map[string]func(context.Context, *client.Client) []candidate{
	"interpreter": func(ctx context.Context, server *client.Client) []candidate {
		list, _ := server.Interpreters(ctx)
		return listed(list, func(i *client.Interpreter) candidate { return candidate{i.ID, i.Language} })
	},
	"key": func(ctx context.Context, server *client.Client) []candidate {
		list, _ := server.Keys().List(ctx)
		return listed(list, func(k *client.Key) candidate { return candidate{k.ID, printable.Line(k.Name)} })
	},
	"schedule": func(ctx context.Context, server *client.Client) []candidate {
		list, _ := server.Schedules().List(ctx)
		return listed(list, func(s *client.Schedule) candidate { return candidate{s.ID, printable.Line(s.Cron)} })
	},
	"webhook": func(ctx context.Context, server *client.Client) []candidate {
		list, _ := server.Webhooks().List(ctx)
		return listed(list, func(w *client.Webhook) candidate { return candidate{w.ID, printable.Line(w.URL)} })
	},
}

func listed[T any](list []T, of func(*T) candidate) (found []candidate) {
	for i := range list {
		found = append(found, of(&list[i]))
	}
	return found
}

// pathNames are the entries of the directory of the server in which a path ends.
func pathNames(ctx context.Context, server *client.Client, path string) []candidate {
	dir := path[:strings.LastIndexByte(path, '/')+1]
	list, _ := server.ListFiles(ctx, strings.TrimSuffix(dir, "/"), completionLimit, "")
	return listed(list.Files, func(f *client.File) candidate {
		if f.Type == "directory" {
			return candidate{dir + f.Name() + "/", "directory"}
		}
		return candidate{dir + f.Name(), printable.Line(f.Type)}
	})
}

// completionLimit bounds the names that are completed.
const completionLimit = 100

func executionNames(ctx context.Context, server *client.Client) (list []candidate) {
	page, _ := server.List(ctx, client.ExecutionQuery{Limit: completionLimit})
	for i := range page.Executions {
		x := &page.Executions[i]
		list = append(list, candidate{x.ID, printable.Line(statusText(x) + "  " + clip(commandText(x), 40))})
	}
	return list
}

func streamNames(ctx context.Context, server *client.Client) (list []candidate) {
	page, _ := server.ListStreams(ctx, completionLimit, "")
	for i := range page.Streams {
		list = append(list, candidate{page.Streams[i].Name, page.Streams[i].Status})
	}
	return list
}

// matching returns the words that begin with the typed text, after the unchanged prefix.
func matching(list []candidate, typed, before string) (found []candidate) {
	for _, c := range list {
		if strings.HasPrefix(c.word, typed) {
			found = append(found, candidate{before + c.word, c.help})
		}
	}
	return found
}
