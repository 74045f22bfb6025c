package bench

import (
	"context"
	"errors"

	"reprise"
)

func openDisk(ctx context.Context, path string) (reprise.Store, error) {
	return nil, errors.New("not yet")
}
