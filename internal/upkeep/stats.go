package upkeep

import (
	"context"

	"reprise"
	"reprise/internal/datadir"
	"reprise/store/logstore"
	"reprise/store/natsstore"
	"reprise/store/pgstore"
	"reprise/store/redisstore"
	"reprise/store/sqlitestore"
)

// Stats is what each tenant keeps, and what the store says of itself. At most one of the pointers is not nil.
type Stats struct {
	Tenants  map[reprise.Tenant]TenantSize `json:"tenants"`
	SQLite   *sqlitestore.Stats            `json:"sqlite,omitempty"`
	Log      *logstore.Stats               `json:"log,omitempty"`
	Redis    *redisstore.Stats             `json:"redis,omitempty"`
	Postgres *pgstore.Stats                `json:"postgres,omitempty"`
	NATS     *natsstore.Stats              `json:"nats,omitempty"`
	// DiskFree is the room on the disk of the data directory, in bytes, if the system says.
	DiskFree *uint64 `json:"disk_free_bytes,omitempty"`
	// Advice is there if it was asked for.
	Advice *Advice `json:"advice,omitempty"`
}

// TenantSize is a reprise.Size as JSON.
type TenantSize struct {
	Streams int64 `json:"streams"`
	Events  int64 `json:"events"`
	Bytes   int64 `json:"bytes"`
	// Overhead is what is kept beside the events.
	Overhead int64 `json:"overhead"`
}

// Measure returns the sizes that log counts in store, and what is free on the disk of dir, the data directory, if it is
// not "".
func Measure(ctx context.Context, log *reprise.Log, store reprise.Store, dir string) (Stats, error) {
	sizes, err := log.Sizes(ctx)
	if err != nil {
		return Stats{}, err
	}
	stats := Stats{Tenants: map[reprise.Tenant]TenantSize{}}
	for tenant, size := range sizes {
		stats.Tenants[tenant] = TenantSize(size)
	}
	if free, err := datadir.Free(dir); dir != "" && err == nil {
		stats.DiskFree = &free
	}
	switch store := Innermost(store).(type) {
	case *sqlitestore.Store:
		stats.SQLite, err = pointer(store.Stats(ctx))
	case *logstore.Store:
		stats.Log, err = pointer(store.Stats(ctx))
	case *redisstore.Store:
		stats.Redis, err = pointer(store.Stats(ctx))
	case *pgstore.Store:
		stats.Postgres, err = pointer(store.Stats(ctx))
	case *natsstore.Store:
		stats.NATS, err = pointer(store.Stats(ctx))
	}
	return stats, err
}

func pointer[T any](v T, err error) (*T, error) { return &v, err }

// Innermost returns the store within all wrappers.
func Innermost(store reprise.Store) reprise.Store {
	for {
		wrapper, ok := store.(interface{ Unwrap() reprise.Store })
		if !ok {
			return store
		}
		store = wrapper.Unwrap()
	}
}
