package main

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strings"

	"reprise/client"
	"reprise/internal/tracecontext"
)

// rerunCmd starts what an execution has run.
type rerunCmd struct {
	bridging  `embed:""`
	Detach    bool     `short:"d" help:"Print the id and exit; \"reprise follow ID\" follows it."`
	Stdin     bool     `short:"i" help:"Send our stdin to the command."`
	Env       []string `short:"e" sep:"none" placeholder:"NAME[=VALUE]" help:"Variable for the command; without a value, the local one. The server does not keep the values of the first run, so each of its variables has to be given. May be repeated."`
	JSON      bool     `name:"json" help:"Print each event as a line of JSON, with its cursor; with --detach, print the execution."`
	detaching `embed:""`
	newest    `embed:""`
	connect   `embed:""`

	ID string `arg:"" optional:"" help:"Id of the execution."`
}

// Help is shown below the usage.
func (*rerunCmd) Help() string {
	return `Starts the same command in the same directory, with the same limits, isolation, labels and so on, under an id of its own; everything else is as with "run". What the server does not keep, because it may be a secret, has to be given again: variables, and stdin. Code of a language is not kept either: run it again by "run".`
}

// Run starts it and follows.
func (c *rerunCmd) Run(ctx context.Context, asked *stops) error {
	again := runCmd{
		connect: c.connect, bridging: c.bridging, detaching: c.detaching,
		Detach: c.Detach, Stdin: c.Stdin, JSON: c.JSON,
	}
	request, err := c.request(ctx, asked)
	if err != nil {
		return ours(err)
	}
	again.Stdin = again.Stdin || request.StdinOpen
	request.StdinOpen = again.Stdin
	if request.TTY != nil {
		again.askForTerminal(&request)
		again.TTY = true
	}
	return again.start(ctx, asked, request)
}

// request returns the request of the execution, with what the server does not keep.
func (c *rerunCmd) request(ctx context.Context, asked *stops) (client.StartRequest, error) {
	var kept client.KeptRequest
	err := c.with(ctx, asked, func(ctx context.Context, server *client.Client) (err error) {
		kept, err = server.ShowRequest(ctx, c.ID)
		return err
	})
	if err != nil {
		return client.StartRequest{}, err
	}
	request := kept.Request
	request.Env = environ(c.Env)
	missing := slices.DeleteFunc(kept.Missing, func(name string) bool {
		variable, isEnv := strings.CutPrefix(name, "env.")
		_, given := request.Env[variable]
		return isEnv && given || name == "stdin" && c.Stdin
	})
	if len(missing) > 0 {
		return client.StartRequest{}, usage("the server does not keep %s of %s; %s", strings.Join(missing, ", "), c.ID,
			"--env NAME=VALUE gives a variable, --stdin the input")
	}
	trace := tracecontext.New(os.Getenv(tracecontext.ParentVariable), os.Getenv(tracecontext.StateVariable))
	request.ID = strings.ToLower(rand.Text())
	request.TraceParent, request.TraceState = trace.Parent, trace.State
	return request, nil
}
