package main

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/store/storewrap"
)

// storeRetireCmd takes a key out of use.
type storeRetireCmd struct {
	Key string `arg:"" help:"Id of the key, as in the key file."`

	storePlace `embed:""`
}

// Help is shown below the usage.
func (*storeRetireCmd) Help() string {
	return `A store does not open without the keys that its marker names. This verb reads the whole store, refuses if anything is encrypted with the key, and removes the key from the marker. Remove the key from the file afterwards: a store that is opened with the key names it again.

Exit codes: 0 the key is retired; 1 something is encrypted with it, or the store could not be read; 2 wrong usage.`
}

// Run retires the key.
func (c *storeRetireCmd) Run(ctx context.Context, asked *stops) error {
	return c.use(ctx, asked, func(ctx context.Context, store reprise.Store) error {
		err := storewrap.Retire(ctx, store, c.Key)
		if errors.Is(err, errors.ErrUnsupported) {
			return usage("the store is not opened with encrypt+")
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout,
			"the store opens without the key %s now: remove it from the file of the keys\n", c.Key)
		return err
	})
}
