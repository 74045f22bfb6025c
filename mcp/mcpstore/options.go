package mcpstore

import (
	"log/slog"
	"time"

	"reprise"
)

// Options are the settings of an event store. The zero value of each field means its default.
type Options struct {
	// Tenant is whose streams the events become. Each sweep lists all streams of the tenant, so that one with many
	// others is better not shared. Default: reprise.DefaultTenant.
	Tenant reprise.Tenant
	// Retention bounds each stream. MaxAge counts from the last message, and its default is 1 hour; the others are
	// those of the Log.
	Retention reprise.Retention
	// MaxSilence is for how long a stream is kept whose last message is no response, if its session is not open
	// in this process. Default: 24 hours, and no less than Retention.MaxAge.
	MaxSilence time.Duration
	// MaxPendingBytes bounds the messages of all streams together that are held in memory while the store is
	// unavailable. Default: 64 MiB.
	MaxPendingBytes int64
	// MaxWait is how long an append waits for room below MaxPendingBytes, and a resume for a store that is
	// unavailable. Default: 5 seconds.
	MaxWait time.Duration
	// SweepEvery is the time between sweeps. Default: 5 minutes; negative: never.
	SweepEvery time.Duration
	// Logger is told of messages that are lost and of sweeps that fail. Default: silent.
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
