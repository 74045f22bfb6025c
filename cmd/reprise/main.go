// Command reprise is the server, the client and the tool of Reprise in one binary.
//
//	reprise serve
//	reprise run -- make test
//
// Each verb has a file of its own; "reprise --help" lists them with their exit codes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"reprise/internal/execution"
	"reprise/internal/park"
	"reprise/internal/problem"
	"reprise/internal/spawn"
)

// cli is the grammar of the command line, in the order of the help.
type cli struct {
	ShowVersion versionFlag `name:"version" env:"-" help:"Print the version."`

	Serve  serveCmd  `group:"Server:" cmd:"" help:"Run the server."`
	Demo   demoCmd   `group:"Server:" cmd:"" help:"Demonstrate a job followed over a connection that is cut every second."`
	Drain  drainCmd  `group:"Server:" cmd:"" help:"Let a server finish its commands, and stop it."`
	Doctor doctorCmd `group:"Server:" cmd:"" help:"Check the requirements of the server, and print how to fix each problem."`
	Config configCmd `group:"Server:" cmd:"" help:"Print the settings that serve would use, and the source of each."`

	Run         runCmd         `group:"Executions and streams:" cmd:"" help:"Run a command on the server as if it ran here."`
	Rerun       rerunCmd       `group:"Executions and streams:" cmd:"" help:"Run again what an execution has run."`
	Follow      followCmd      `group:"Executions and streams:" cmd:"" help:"Show the output of an execution or the events of a stream, from the start or from a saved position."`
	Attach      attachCmd      `group:"Executions and streams:" cmd:"" help:"Attach this terminal to the terminal of a running command."`
	Logs        logsCmd        `group:"Executions and streams:" cmd:"" help:"Print the output of an execution so far, or the events of a stream."`
	Wait        waitCmd        `group:"Executions and streams:" cmd:"" help:"Wait until executions have ended, and exit with their exit code."`
	List        listCmd        `group:"Executions and streams:" cmd:"" aliases:"ps" help:"List executions, streams or sessions, the newest first."`
	Show        showCmd        `group:"Executions and streams:" cmd:"" help:"Show the state of an execution, a stream or a session."`
	Input       inputCmd       `group:"Executions and streams:" cmd:"" help:"Send our stdin to the stdin of an execution."`
	Signal      signalCmd      `group:"Executions and streams:" cmd:"" help:"Send a signal to the command of an execution."`
	Cancel      cancelCmd      `group:"Executions and streams:" cmd:"" help:"End an execution with all its processes: TERM, a grace period, KILL."`
	Remove      removeCmd      `group:"Executions and streams:" cmd:"" aliases:"rm" help:"Remove executions, streams or sessions; running ones are cancelled."`
	Retain      retainCmd      `group:"Executions and streams:" cmd:"" help:"Change how much of executions or streams is kept, and their labels."`
	Artifacts   artifactsCmd   `group:"Executions and streams:" cmd:"" help:"List or fetch the files that are kept with an execution."`
	Interpreter interpreterCmd `group:"Executions and streams:" cmd:"" help:"Start, show and end interpreters, which keep variables and definitions between runs."`
	Publish     publishCmd     `group:"Executions and streams:" cmd:"" help:"Publish the lines of our stdin as events of a stream, which is created if it does not exist."`
	End         endCmd         `group:"Executions and streams:" cmd:"" help:"End a stream."`

	Cp    cpCmd    `group:"Files:" cmd:"" help:"Copy a file to the server or from it, through lost connections."`
	Files filesCmd `group:"Files:" cmd:"" help:"Work on files of the server."`

	Watch    watchCmd    `group:"Automation:" cmd:"" help:"Run a local command for each event of a stream."`
	Webhook  webhookCmd  `group:"Automation:" cmd:"" help:"Make, list, rotate, test and remove webhooks."`
	Schedule scheduleCmd `group:"Automation:" cmd:"" help:"Run commands on the server at set times."`

	MCP      mcpCmd      `group:"Model Context Protocol:" cmd:"" name:"mcp" help:"Run commands for a client of the Model Context Protocol, over stdin and stdout."`
	Relay    relayCmd    `group:"Server:" cmd:"" help:"Make the streaming answers of any HTTP backend resumable, without changing it."`
	Gateway  gatewayCmd  `group:"Model Context Protocol:" cmd:"" help:"Add resumption, durability and both protocol eras to another MCP server."`
	CheckMCP checkMCPCmd `group:"Model Context Protocol:" cmd:"" name:"check-mcp" help:"Test what clients of an MCP server can rely on when connections break."`

	Store   storeCmd   `group:"Operation:" cmd:"" help:"Inspect or maintain a store, without a server or while one uses it."`
	Backup  backupCmd  `group:"Operation:" cmd:"" help:"Back up a store into a file, also while a server uses it."`
	Restore restoreCmd `group:"Operation:" cmd:"" help:"Restore a store from a backup."`
	Secrets secretsCmd `group:"Operation:" cmd:"" help:"Make the token and the keys that replicas share, and manage the secrets of commands."`
	Key     keyCmd     `group:"Operation:" cmd:"" help:"Make, list, rotate and revoke API keys."`
	Quota   quotaCmd   `group:"Operation:" cmd:"" help:"Show the usage and the limit of each quota."`
	Audit   auditCmd   `group:"Operation:" cmd:"" help:"Read or check the audit log."`

	CheckClient checkClientCmd `group:"Tests of clients and servers:" cmd:"" help:"Test a client in any language against its contract, over connections that break."`
	CheckFace   checkFaceCmd   `group:"Tests of clients and servers:" cmd:"" help:"Test a server that speaks E2B, OpenSandbox or Durable Streams, over connections that break."`
	Proxy       proxyCmd       `group:"Tests of clients and servers:" cmd:"" help:"Simulate a bad network in front of a server, to test a client."`

	Login      loginCmd      `group:"This program:" cmd:"" help:"Keep a server and its token, for all verbs."`
	Context    contextCmd    `group:"This program:" cmd:"" help:"List, choose and forget the servers that were logged in to."`
	Completion completionCmd `group:"This program:" cmd:"" help:"Print the completion script for bash, zsh or fish."`
	Man        manCmd        `group:"This program:" cmd:"" help:"Print or write manual pages."`
	Help       helpCmd       `group:"This program:" cmd:"" help:"Show the usage of a verb."`
	Version    versionCmd    `group:"This program:" cmd:"" help:"Print the version."`

	Complete completeCmd `cmd:"" name:"__complete" hidden:"" help:"List the completions of a command line."`
}

const description = `Run commands and publish events over connections that break: miss nothing, see nothing twice, run nothing again.

Start a server with "reprise serve", then "reprise run -- COMMAND".

Most flags have an environment variable, such as REPRISE_LISTEN for --listen; the help of a verb shows it in parentheses. Clients find the server by --context, by REPRISE_URL and REPRISE_TOKEN, by the context of "reprise login", or else at http://127.0.0.1:7070 with the token file of that server. Terminals get headings and colours: NO_COLOR=1 turns the colours off, and CLICOLOR_FORCE=1 turns them on everywhere.

Verbs that take the id of an execution take the first six characters of a generated id, too, and most of them --last for the newest execution. An id that somebody has chosen, and what "remove" removes, is written out.

Exit codes: 0 done; 1 failed; 2 wrong usage; 130 or 143 ended by INT or TERM. "run", "follow" and "wait" exit as the command did: its own code, 128 and the number of the signal that killed it, 124 when it timed out, 127 when it could not be started, 130 when it was cancelled but exited with 0; 125 is a failure of reprise, a lost run or lost events.`

func main() {
	execution.Supervise() // does not return in a supervisor
	os.Exit(Main(os.Args[1:]))
}

// Main runs the command line args and returns the exit code.
func Main(args []string) int {
	if len(args) == 0 {
		return bare()
	}
	file := &configFile{}
	command, err := parser(grammar(args), asks(), file).Parse(args)
	if failed := stdout.unwritten(); failed != nil { // the help, or the version
		return report(os.Stderr, failed, nil)
	}
	if err = cmp.Or(file.err, err); err != nil {
		if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
			command = wrong.Context
		}
		if advice := advise(args); advice != "" && file.err == nil {
			err = errors.New(advice)
		}
		return report(os.Stderr, &exit{code: exitUsage, err: withoutEmpty(err)}, command)
	}
	if err := checkFlags(command); err != nil {
		return report(os.Stderr, err, command)
	}
	verb, _, _ := strings.Cut(command.Command(), " ")
	if err := unavailable(runtime.GOOS, verb, flagText(command, "url")); err != nil {
		return report(os.Stderr, err, command)
	}
	err = wholeNames(command)
	if err == nil {
		err = command.Run()
	}
	err = nameFlag(command, err)
	if err == nil && verb != "serve" && verb != "gateway" { // what these print is no result
		err = stdout.unwritten()
	}
	return report(os.Stderr, err, command)
}

// withoutEmpty returns an error of the parser without the empty value among those that a flag takes: it stands for a
// flag that is not given.
func withoutEmpty(err error) error {
	if before, after, ok := strings.Cut(err.Error(), `must be one of "",`); ok {
		return errors.New(before + "must be one of " + after)
	}
	return err
}

// negatives are the flags whose negative values mean something: none, or never.
var negatives = []string{"max-queued", "max-interpreters", "quick", "sweep-every"}

// checkFlags refuses negative numbers, which would otherwise count as defaults or as no limit, and variables with a
// value where only their names are taken.
func checkFlags(command *kong.Context) error {
	for _, flag := range command.Flags() {
		var below bool
		value := command.FlagValue(flag)
		switch value := value.(type) {
		case int:
			below = value < 0
		case int64:
			below = value < 0
		case time.Duration:
			below = value < 0
		case []string:
			if wrong := spawn.InvalidName(value); wrong != "" && flag.Name == "pass-env" {
				return usage("--pass-env %s", wrong)
			}
		}
		if below && !slices.Contains(negatives, flag.Name) {
			return usage("--%s %v: it must not be negative", flag.Name, value)
		}
	}
	return nil
}

// parser reads command lines of a grammar.
func parser(grammar any, asked *stops, file *configFile) *kong.Kong {
	return kong.Must(grammar,
		kong.Name("reprise"), kong.Description(description), kong.Writers(stdout, os.Stderr),
		kong.DefaultEnvars("REPRISE"),
		kong.BindTo(context.Background(), (*context.Context)(nil)), kong.Bind(asked),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Vars{
			"state": defaultDataDir(), "gatewayState": defaultGatewayDir(),
			"parking": strconv.FormatBool(park.Supported),
		}, kong.Resolvers(file),
	)
}

// model describes the whole grammar.
func model() *kong.Application { return parser(new(cli), nil, &configFile{}).Model }

// grammar returns a pointer to the part of cli that args can match: the verb that args begins with, or all
// verbs. Describing all of them takes half of the time of a short command.
func grammar(args []string) any {
	if len(args) > 0 {
		for field := range reflect.TypeFor[cli]().Fields() {
			name := cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name))
			if _, verb := field.Tag.Lookup("cmd"); verb && name == args[0] {
				return reflect.New(reflect.StructOf([]reflect.StructField{field})).Interface()
			}
		}
	}
	return new(cli)
}

// nameFlag adds to err, a refusal of the server, the flag that gave the member of the request that it is about.
func nameFlag(command *kong.Context, err error) error {
	refused, ok := problem.As(err)
	if !ok || refused.Field == "" {
		return err
	}
	member, _, _ := strings.Cut(refused.Field, ".")
	for _, flag := range command.Flags() {
		if flag.Group != nil && flag.Group.Key == serverFlags {
			continue // --url is where the server is, not what a webhook calls
		}
		if given := strings.ReplaceAll(flag.Name, "-", "_"); given == member || given+"s" == member {
			return fmt.Errorf("--%s: %w", flag.Name, err)
		}
	}
	return err
}

// flagText is the value of a flag that holds a string, "" if the verb has no such flag.
func flagText(command *kong.Context, name string) string {
	for _, flag := range command.Flags() {
		if flag.Name == name {
			text, _ := command.FlagValue(flag).(string)
			return text
		}
	}
	return ""
}

// unavailable refuses verbs that an operating system does not support: on Windows the binary is a client.
func unavailable(goos, verb, mcpURL string) error {
	if goos != "windows" {
		return nil
	}
	switch verb {
	case "serve", "gateway", "store", "backup", "restore", "doctor", "demo":
	case "mcp":
		if mcpURL != "" {
			return nil
		}
		verb = "mcp without --url"
	default:
		return nil
	}
	return usage("%s does not work on Windows: run it on Linux or macOS, or in WSL, and set REPRISE_URL here", verb)
}
