package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"reprise/internal/storeurl"
)

// configCmd prints the settings of serve.
type configCmd struct {
	serveCmd `embed:""`

	JSON bool `name:"json" help:"Print each setting as a line of JSON."`
}

// Help is shown below the usage.
func (*configCmd) Help() string {
	return `Reads the flags of serve, its environment and its configuration file, and prints the resulting settings: name, value, and where the value comes from. Passwords in URLs are omitted. The verb starts nothing and writes no file.`
}

// setting is one line of config.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// Run prints the settings.
func (c *configCmd) Run(command *kong.Context) error {
	rows := newTable(stdout, "SETTING", "VALUE", "FROM")
	for _, flag := range command.Flags() {
		if flag.Name == "help" || flag.Name == "json" {
			continue
		}
		s := setting{Name: flag.Name, Value: settingText(command, flag), From: sourceOf(command, flag)}
		if c.JSON {
			if err := printObject(s); err != nil {
				return err
			}
			continue
		}
		rows.row(s.Name, s.Value, s.From)
	}
	return rows.flush()
}

// statedDefault returns the default that a help text states if the field has none.
var statedDefault = regexp.MustCompile(`Default: (.*?)\.?$`)

// settingText returns the printed value of a flag.
func settingText(command *kong.Context, flag *kong.Flag) string {
	var text string
	switch value := command.FlagValue(flag).(type) {
	case []string:
		text = strings.Join(value, ",")
	case string:
		text = storeurl.Redact(value)
	case storeURL:
		text = value.String()
	case bool:
		return fmt.Sprint(value)
	default:
		if !reflect.ValueOf(value).IsZero() {
			text = fmt.Sprint(value)
		}
	}
	if stated := statedDefault.FindStringSubmatch(flag.Help); text == "" && stated != nil {
		return stated[1]
	}
	return text
}

// sourceOf returns the source of a flag's value: "flag", the name of the environment variable, the configuration file,
// or "default".
func sourceOf(command *kong.Context, flag *kong.Flag) string {
	source := givenBy(command, flag)
	if store, ok := command.FlagValue(flag).(storeURL); ok && store.file != "" {
		return store.file + ", named by " + source
	}
	return source
}

// givenBy is sourceOf for the value as it was given, which may name a file.
func givenBy(command *kong.Context, flag *kong.Flag) string {
	for _, path := range command.Path {
		switch {
		case path.Flag != flag:
		case path.Resolved:
			return configPath(command)
		default:
			return "flag"
		}
	}
	return cmp.Or(variableOf(flag), "default")
}

// variableOf returns the environment variable that sets a flag, or "".
func variableOf(flag *kong.Flag) string {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return name
		}
	}
	return ""
}

// configPath returns the configuration file of the verb, or "".
func configPath(command *kong.Context) string { return flagText(command, "config") }

// configFile is a kong.Resolver that gives flags the values of a configuration file. The command line and the
// environment take precedence.
type configFile struct {
	read   bool
	path   string
	values map[string]string
	lines  map[string]int // of the values
	err    error          // of reading the file
}

// Validate implements kong.Resolver.
func (*configFile) Validate(*kong.Application) error { return nil }

// configured are the verbs whose flags a configuration file can set.
var configured = []string{"serve", "config"}

// Resolve implements kong.Resolver.
func (f *configFile) Resolve(command *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if selected := command.Selected(); selected == nil || !slices.Contains(configured, selected.Name) {
		return nil, nil // no value
	}
	if path := configPath(command); !f.read && path != "" {
		f.err = f.load(path, command.Flags())
	}
	f.read = true
	value, ok := f.values[flag.Name]
	if !ok || variableOf(flag) != "" {
		return nil, nil // no value
	}
	target := reflect.New(flag.Target.Type()).Elem()
	trial := &kong.DecodeContext{Value: flag.Value, Scan: kong.ScanFromTokens(kong.Token{Value: value})}
	if err := flag.Mapper.Decode(trial, target); err != nil {
		return nil, fmt.Errorf("%s: line %d: %w", f.path, f.lines[flag.Name], err)
	}
	return value, nil
}

// load reads a YAML file whose members are flags without their dashes.
func (f *configFile) load(path string, flags []*kong.Flag) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var members map[string]yaml.Node
	if err := yaml.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f.path, f.values, f.lines = path, map[string]string{}, map[string]int{}
	for name, node := range members {
		known := slices.ContainsFunc(flags, func(flag *kong.Flag) bool { return flag.Name == name })
		if !known || name == "help" || name == "config" || name == "json" {
			return fmt.Errorf("%s: line %d: serve has no setting %q; \"reprise config\" lists them",
				path, node.Line, name)
		}
		f.lines[name] = node.Line
		if f.values[name], err = scalarText(&node); err != nil {
			return fmt.Errorf("%s: line %d: %s: %w", path, node.Line, name, err)
		}
	}
	return nil
}

// scalarText returns the value of a member as it would be written on the command line.
func scalarText(node *yaml.Node) (string, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		return node.Value, nil
	case yaml.SequenceNode:
		var texts []string
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("a list of values is wanted")
			}
			texts = append(texts, item.Value)
		}
		return kong.JoinEscaped(texts, ','), nil
	}
	return "", errors.New("a value or a list of values is wanted")
}
