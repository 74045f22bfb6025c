package mcpstore

import (
	"log/slog"
	"time"

	"reprise"
)

// Options are the settings of an event store. The zero value of each field means its default.
type Options struct {
	// Tenant owns the streams of the events. Each sweep lists all streams of the tenant, so a tenant with many
	// other streams should not be shared. Default: reprise.DefaultTenant.
	Tenant reprise.Tenant
	// Retention limits each stream. MaxAge counts from the last message, and its default is 1 hour; the other defaults
	// are the Log's.
	Retention reprise.Retention
	// MaxSilence is how long a stream is kept whose last message is not a response, if its session is not open
	// in this process. Default: 24 hours, and no less than Retention.MaxAge.
	MaxSilence time.Duration
	// MaxPendingBytes limits the messages of all streams together that are held in memory while the store is
	// unavailable. Default: 64 MiB.
	MaxPendingBytes int64
	// MaxWait is how long an append waits for room below MaxPendingBytes, and a resume for an unavailable
	// store. Default: 5 seconds.
	MaxWait time.Duration
	// SweepEvery is the time between sweeps. Default: 5 minutes; negative: never.
	SweepEvery time.Duration
	// Logger receives lost messages and failed sweeps. Default: silent.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Tenant == "" {
		d.Tenant = reprise.DefaultTenant
	}
	if d.Retention.MaxAge == 0 {
		d.Retention.MaxAge = time.Hour
	}
	if d.MaxSilence == 0 {
		d.MaxSilence = 24 * time.Hour
	}
	d.MaxSilence = max(d.MaxSilence, d.Retention.MaxAge)
	if d.MaxPendingBytes == 0 {
		d.MaxPendingBytes = 64 << 20
	}
	if d.MaxWait == 0 {
		d.MaxWait = 5 * time.Second
	}
	if d.SweepEvery == 0 {
		d.SweepEvery = 5 * time.Minute
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}
