package main

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/transfer"
)

// storeCheckCmd checks everything.
type storeCheckCmd struct {
	storePlace `embed:""`

	Opaque bool `help:"Do not look into batches, so that a store can be checked without the wrappers and keys with which it was written."`
}

// Help is shown below the usage.
func (*storeCheckCmd) Help() string {
	return `Every stream is read whole, and what the store can check by itself is checked too. A line on stdout names each thing that is wrong. A stream may be named twice, once by the store and once by what reads it.

Exit codes: 0 nothing is wrong; 1 something is, or the store could not be read; 2 wrong usage.`
}

// Run checks, and exits with 1 if anything is wrong.
func (c *storeCheckCmd) Run(ctx context.Context, asked *stops) error {
	c.unchecked = c.Opaque // what lies there is read without its wrappers
	return c.use(ctx, asked, func(ctx context.Context, store reprise.Store) error {
		var printing error
		checked, err := transfer.Check(ctx, store, &transfer.CheckOptions{Opaque: c.Opaque}, func(p transfer.Problem) {
			printing = errors.Join(printing, c.problem(p))
		})
		if err = errors.Join(err, printing); err != nil {
			return err
		}
		if c.JSON {
			err = printObject(map[string]any{"checked": checked})
		} else if checked.Problems == 0 {
			_, err = fmt.Fprintf(stdout, "nothing is wrong: %d streams, %d events, %v\n", checked.Streams,
				checked.Events, byteCount(checked.Bytes))
		}
		if checked.Problems > 0 && err == nil {
			err = &exit{
				code: exitFailed,
				err:  errors.New("the store is damaged: what is damaged is not served, and the rest is; restore a backup, or remove the streams that are named"),
			}
		}
		return err
	})
}

func (c *storeCheckCmd) problem(p transfer.Problem) error {
	if !c.JSON {
		_, err := fmt.Fprintln(stdout, printable(p.String()))
		return err
	}
	object := map[string]string{"wrong": p.String()}
	if p.Key.Name != "" {
		object["tenant"], object["stream"] = string(p.Key.Tenant), p.Key.Name
	}
	return printObject(object)
}
