package archive

import (
	"context"
	"time"
)

// PassNow archives at once what expires up to horizon, which may be swept then. It must not be called
// while the Keeper itself makes a pass.
func (k *Keeper) PassNow(ctx context.Context, horizon time.Time) { k.pass(ctx, horizon, horizon) }
