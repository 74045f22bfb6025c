package archive

import (
	"context"
	"time"
)

// PassNow archives at once what expires up to horizon, which may be swept then, until the next pass.
func (k *Keeper) PassNow(ctx context.Context, horizon time.Time) { k.pass(ctx, horizon, horizon) }
