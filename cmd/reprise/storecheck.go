package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"reprise"
	"reprise/client"
	"reprise/internal/bytesize"
	"reprise/internal/problem"
	"reprise/internal/transfer"
)

// storeCheckCmd checks everything.
type storeCheckCmd struct {
	storePlace `embed:""`
	quietly    `embed:""`

	Opaque bool `help:"Do not decode batches, so that a store can be checked without the wrappers and keys that it was written with."`
}

// Help is shown below the usage.
func (*storeCheckCmd) Help() string {
	return `Reads every stream completely, and runs the checks of the store itself. A line on stdout names each fault. A damaged stream may be reported twice, by the check of the store and by the reader.

Exit codes: 0 no fault; 1 a fault, or the store could not be read; 2 wrong usage.`
}

// Run checks, and exits with 1 if anything is wrong.
func (c *storeCheckCmd) Run(ctx context.Context, asked *stops) error {
	c.unchecked = c.Opaque // what lies there is read without its wrappers
	return c.askOr(ctx, asked, c.askServer, func() error {
		return c.use(ctx, asked, func(ctx context.Context, store reprise.Store) error {
			var printing error
			bar := newProgress(os.Stderr, c.Quiet || c.JSON)
			defer bar.end()
			opts := &transfer.CheckOptions{Opaque: c.Opaque, Progress: func(now transfer.Checked) {
				bar.count(now.Streams, 0, now.Events, now.Bytes)
			}}
			checked, err := transfer.Check(ctx, store, opts, func(p transfer.Problem) {
				bar.end()
				printing = errors.Join(printing, c.problem(p.String(), p.Key))
			})
			bar.end()
			if err = errors.Join(err, printing); err != nil {
				return err
			}
			return c.report(checked)
		})
	})
}

// askServer lets the server that uses the store check it.
func (c *storeCheckCmd) askServer(ctx context.Context, server *client.Client) error {
	query := url.Values{}
	if c.Opaque {
		query.Set("opaque", "true")
	}
	res, err := server.Do(ctx, http.MethodPost, "/v1/store/check", query)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := json.NewDecoder(res.Body)
	for {
		var line struct {
			Wrong   string            `json:"wrong"`
			Tenant  reprise.Tenant    `json:"tenant"`
			Stream  string            `json:"stream"`
			Checked *transfer.Checked `json:"checked"`
			Failed  *problem.Problem  `json:"failed"`
		}
		switch err := lines.Decode(&line); {
		case err != nil:
			return fmt.Errorf("the check was cut short: %w", err)
		case line.Failed != nil:
			return *line.Failed
		case line.Checked != nil:
			return c.report(*line.Checked)
		}
		if err := c.problem(line.Wrong, reprise.StreamKey{Tenant: line.Tenant, Name: line.Stream}); err != nil {
			return err
		}
	}
}

// report prints the result, and is an error if anything is wrong.
func (c *storeCheckCmd) report(checked transfer.Checked) (err error) {
	if c.JSON {
		err = printObject(map[string]any{"checked": checked})
	} else if checked.Problems == 0 {
		err = c.sayResult("nothing is wrong: %d streams, %d events, %v\n", checked.Streams,
			checked.Events, bytesize.Size(checked.Bytes))
	}
	if checked.Problems > 0 && err == nil {
		err = &exit{code: exitFailed, err: errDamaged}
	}
	return err
}

var errDamaged = errors.New("the store is damaged: damaged parts are not served, the others are; " +
	"restore a backup, or remove the streams that are named")

func (c *storeCheckCmd) problem(wrong string, key reprise.StreamKey) error {
	if !c.JSON {
		_, err := fmt.Fprintln(stdout, printable(wrong))
		return err
	}
	object := map[string]string{"wrong": wrong}
	if key.Name != "" {
		object["tenant"], object["stream"] = string(key.Tenant), key.Name
	}
	return printObject(object)
}
