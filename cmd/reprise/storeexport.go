package main

import (
	"context"

	"reprise"
	"reprise/internal/upkeep"
)

// storeExportCmd writes what a store holds as lines of JSON.
type storeExportCmd struct {
	storePlace `embed:""`

	Tenant reprise.Tenant `placeholder:"TENANT" help:"Write only the streams of this tenant. Default: all."`
	NDJSON bool           `name:"ndjson" default:"true" help:"Write lines of JSON, the only form. Default: on."`
}

// Help is shown below the usage.
func (*storeExportCmd) Help() string {
	return `Writes a line of JSON for each stream, the newest first, and behind it one for each of its events, in the form of the API: {"tenant":...,"stream":...,"epoch":...,"earliest":...,"tail":...} and {"tenant":...,"stream":...,"type":"message","event":{"seq":1,...}}. It is for programs that look into a store, as SQL does into a file of SQLite, and is not read back: "reprise backup" makes what can be.

No server may run on the store. Export a backup of it: reprise backup FILE && reprise store export sqlite:FILE.

Exit codes: 0 everything is written; 1 failure; 2 wrong usage.`
}

// Run exports.
func (c *storeExportCmd) Run(ctx context.Context, asked *stops) error {
	return c.use(ctx, asked, func(ctx context.Context, store reprise.Store) error {
		return upkeep.Export(ctx, store, c.Tenant, stdout)
	})
}
