package reprise_test

import (
	"testing"
	"testing/synctest"
	"time"

	"reprise"
)

// TestUsageIsWhatTheStoreKeeps: what a Log counts without asking its store is what the store adds up, after
// everything that changes what is kept.
func TestUsageIsWhatTheStoreKeeps(t *testing.T) { synctest.Test(t, testUsage) }

func testUsage(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{SweepEvery: -1, MaxTenantBytes: 1 << 30, MaxTotalBytes: 2 << 30})
	before := log.Usage()
	if before.Bytes != 0 || len(before.Tenants) != 0 || before.MaxTenantBytes != 1<<30 || before.MaxBytes != 2<<30 {
		t.Errorf("an empty log: %+v", before)
	}
	same := func(when string) reprise.Size {
		t.Helper()
		sizes, err := log.Sizes(t.Context())
		check(t, err)
		usage := log.Usage()
		var total int64
		for tenant, size := range sizes {
			want := reprise.Size{Streams: size.Streams, Events: size.Events, Bytes: size.Bytes + size.Overhead}
			if got := usage.Tenants[tenant]; got != want {
				t.Errorf("%s, %s: counted %+v, the store has %+v", when, tenant, got, want)
			}
			total += want.Bytes
		}
		if len(usage.Tenants) != len(sizes) || usage.Bytes != total {
			t.Errorf("%s: %d bytes of %v, the store has %d of %v", when, usage.Bytes, usage.Tenants, total, sizes)
		}
		return usage.Tenants[reprise.DefaultTenant]
	}
	s := create(t, log, "s", reprise.Retention{MaxEvents: 5})
	short := create(t, log, "short", reprise.Retention{MaxAge: time.Nanosecond})
	other, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "other", Name: "s"}, reprise.StreamConfig{})
	check(t, err)
	if size := same("three streams"); size.Streams != 2 || size.Events != 0 {
		t.Errorf("two streams of the default tenant: %+v", size)
	}
	add(t, s, numbered(1, 3)...)
	add(t, short, numbered(1, 2)...)
	add(t, other, numbered(1, 4)...)
	same("events")
	add(t, s, numbered(4, 6)...) // of nine events the oldest four go
	if size := same("retention"); size.Events != 5+2 {
		t.Errorf("after retention: %+v", size)
	}
	check(t, s.Trim(t.Context(), 8))
	if size := same("a trim"); size.Events != 2+2 {
		t.Errorf("after a trim: %+v", size)
	}
	end(t, short)
	time.Sleep(time.Second)
	_, err = log.Sweep(t.Context())
	check(t, err)
	if size := same("a sweep"); size.Streams != 1 || size.Events != 2 {
		t.Errorf("after a sweep: %+v", size)
	}
	check(t, log.Remove(t.Context(), other.Key()))
	same("a removal")
}
