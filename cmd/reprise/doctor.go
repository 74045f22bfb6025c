package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reprise/client"
	"reprise/cmd/reprise/internal/doctor"
	"reprise/cmd/reprise/internal/printable"
	"reprise/internal/datadir"
	"reprise/internal/isolation"
	"reprise/internal/storeurl"
)

// doctorCmd checks the machine.
type doctorCmd struct {
	storeKeys      `embed:""`
	isolationFlags `embed:""`

	Listen string   `default:"127.0.0.1:7070" placeholder:"HOST:PORT" help:"Address that the server would listen on. Default: ${default}."`
	Data   string   `default:"${state}" placeholder:"DIR" help:"Data directory of the server. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store  storeURL `placeholder:"URL" help:"Store of the server; @FILE reads the URL from a file. Default: what is in the data directory."`
	JSON   bool     `name:"json" help:"Print each finding as a line of JSON."`
}

// Help is shown below the usage.
func (*doctorCmd) Help() string {
	return `Each line begins with ok, warn or fail, followed by the finding and its remedy. The lines from "commands" on say what a command can do that asks for nothing, with the flags and variables of the server. The exit code is 1 if any check failed.`
}

// Run checks and reports.
func (c *doctorCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	boundary, refused := c.config(data)
	if c.RunAsRange != "" {
		boundary.Range = new(isolation.UserRange) // of which nobody is given a user here
	}
	findings := doctor.Run(ctx, &doctor.Options{
		Listen: c.Listen, Data: c.Data, Store: storeurl.Text(data, c.Store.in(data).url), OpenStore: c.openStore,
		InUse: datadir.ErrInUse, Waiting: c.waiting(),
		Isolation: &boundary, Refused: refused, LimitCommand: c.LimitCommand,
	})
	for _, f := range findings {
		if err := c.print(f); err != nil {
			return err
		}
	}
	if doctor.Failed(findings) {
		return &exit{code: exitFailed}
	}
	return nil
}

// resultStyles are the styles of the results of checks.
var resultStyles = map[doctor.Result]style{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}

func (c *doctorCmd) print(f doctor.Finding) error {
	if c.JSON {
		return printObject(f)
	}
	result := paletteOf(stdout).draw(resultStyles[f.Result], fmt.Sprintf("%-4s", f.Result))
	_, err := fmt.Fprintf(stdout, "%s  %-15s  %s\n", result, f.Check, printable.Line(f.Detail))
	if err == nil && f.Advice != "" {
		_, err = fmt.Fprintf(stdout, "%23s%s\n", "", f.Advice)
	}
	return err
}

// waiting asks the server that has the data directory for commands that wait for storage. It is nil if there is no
// token for it.
func (c *doctorCmd) waiting() func(context.Context) (int, time.Time, error) {
	token, err := os.ReadFile(filepath.Join(c.Data, datadir.TokenFile))
	if err != nil {
		return nil
	}
	if conn, err := net.DialTimeout("tcp", c.Listen, time.Second); err != nil {
		return nil
	} else {
		_ = conn.Close()
	}
	return func(ctx context.Context) (n int, since time.Time, err error) {
		server, err := client.New(&client.Options{
			URL: "http://" + c.Listen, Token: strings.TrimSpace(string(token)), GiveUp: time.Second,
		})
		if err != nil {
			return 0, since, err
		}
		page, err := server.List(ctx, client.ExecutionQuery{Status: "running", Limit: 1000})
		for i := range page.Executions {
			x := &page.Executions[i]
			if x.Waiting != "storage" || x.WaitingSince.IsZero() {
				continue
			}
			if n++; since.IsZero() || x.WaitingSince.Before(since) {
				since = x.WaitingSince.Time
			}
		}
		return n, since, err
	}
}

// openStore opens and closes the store, if it is there already.
func (c *doctorCmd) openStore(ctx context.Context) error {
	if _, err := os.Stat(c.Data); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dir, err := datadir.Lock(c.Data)
	if err != nil {
		return err
	}
	return errors.Join(c.tryStore(ctx, dir), dir.Close())
}

func (c *doctorCmd) tryStore(ctx context.Context, dir *datadir.Dir) error {
	url := c.Store.in(dir.Path).url
	if file, ok := storeurl.Path(dir.Path, url); ok {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	store, err := storeurl.OpenIn(ctx, dir.Path, url, &storeurl.Options{Keys: c.file(c.Data)})
	if err != nil {
		return err
	}
	return store.Close()
}
