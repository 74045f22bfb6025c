package marker

import (
	"context"
	"errors"

	"reprise"
)

// Start names a time at which a server recorded in a store, and in its data directory, that it uses the store.
type Start struct {
	Name string `json:"name"`
	// Before is the name that the data directory knew then.
	Before string `json:"before,omitempty"`
}

// ReadStart returns the newest start in the marker of the store, or of the part of one, that the Wrappers around store
// are for.
func ReadStart(ctx context.Context, store reprise.Store) (Start, error) {
	c := wrapperCheck{home: store}
	c.descend()
	m, err := readMarker(ctx, c.home)
	return m.start, err
}

// WriteStart replaces what ReadStart returns.
func WriteStart(ctx context.Context, store reprise.Store, start Start) error {
	c := wrapperCheck{home: store}
	c.descend()
	for {
		m, err := readMarker(ctx, c.home)
		if err != nil {
			return err
		}
		m.start = start
		err = m.write(ctx, c.home, m.wrappers)
		if !errors.Is(err, reprise.ErrConflict) && !errors.Is(err, reprise.ErrNotFound) {
			return err
		}
	}
}
