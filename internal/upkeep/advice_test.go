package upkeep_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/upkeep"
	"reprise/store/memstore"
)

// TestAdvise: rates are those of what nothing has swept, and the bounds are held against them.
func TestAdvise(t *testing.T) {
	for _, c := range []struct {
		name     string
		total    int64 // bound on all streams
		commands int
		full     bool // will be
	}{{"with room", 1 << 30, 10, false}, {"without", 100_000, 5, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, err := reprise.Open(t.Context(), memstore.New(nil), &reprise.Options{
					SweepEvery: -1, MaxTotalBytes: c.total,
					Retention: reprise.Retention{MaxEvents: 100, MaxBytes: 1 << 20, MaxAge: time.Hour},
				})
				check(t, err)
				defer log.Close()
				open := create(t, log, "open")
				texts := slices.Repeat([]string{strings.Repeat("x", 100)}, 100)
				for i := range c.commands { // one each 6 minutes
					s := create(t, log, fmt.Sprint(i))
					add(t, s, texts...)
					time.Sleep(6 * time.Minute) // of the bubble
					_, err := s.End(t.Context(), "completed", reprise.Event{})
					check(t, err)
				}
				for range 240 {
					add(t, open, "event")
				}
				a, err := upkeep.Advise(t.Context(), log, sizes(t, log), time.Now())
				check(t, err)
				if a.Streams != int64(c.commands)+1 || a.Open != 1 || a.MaxBytes != c.total || (a.FullInDays != nil) != c.full {
					t.Errorf("%+v", a)
				}
				if c.full { // in less than an hour
					if days := *a.FullInDays; days <= 0 || days > 1./24 {
						t.Errorf("full in %v days", days)
					}
					return
				}
				if want := int64(24 * (10*101 + 240)); a.EventsPerDay != want || a.PeriodSeconds != 3600 {
					t.Errorf("%d events a day over %v s, want %d over 3600", a.EventsPerDay, a.PeriodSeconds, want)
				}
				// Of each command the bound on events keeps 100 of 101, and of the open stream 100 of 240.
				if a.AtEvents != 11 || a.AtBytes != 0 || a.GivenUp != 10+140 {
					t.Errorf("%+v", a)
				}
				kept := log.Usage().Bytes
				if sum := a.AgeBytes + a.OpenBytes; sum < kept*9/10 || sum > kept*11/10 || a.KeptBytes < kept {
					t.Errorf("the bounds keep %d, and there are %d: %+v", sum, kept, a)
				}
			})
		})
	}
}

// sizes are those of log as JSON.
func sizes(t *testing.T, log *reprise.Log) map[reprise.Tenant]upkeep.TenantSize {
	t.Helper()
	all, err := log.Sizes(t.Context())
	check(t, err)
	sizes := map[reprise.Tenant]upkeep.TenantSize{}
	for tenant, size := range all {
		sizes[tenant] = upkeep.TenantSize(size)
	}
	return sizes
}
