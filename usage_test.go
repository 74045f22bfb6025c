package reprise_test

import (
	"context"
	"errors"
	"fmt"
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

// createFor makes a stream that is charged to an account of the default tenant.
func createFor(
	ctx context.Context, log *reprise.Log, name, account string,
) (*reprise.Stream, error) {
	config := reprise.StreamConfig{Labels: map[string]string{"k": "v"}}
	if account != "" {
		config.Labels[reprise.AccountLabel] = account
	}
	s, _, err := log.Create(ctx, reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}, config)
	return s, err
}

// TestAccountsAreCountedAsTheStoreKeeps: what accounts keep is what their streams take, through appends, retention,
// removal and a restart.
func TestAccountsAreCountedAsTheStoreKeeps(t *testing.T) { synctest.Test(t, testAccountsAreCounted) }

func testAccountsAreCounted(t *testing.T) {
	store := memory(t)
	opts := &reprise.Options{
		SweepEvery: -1, Quota: func(reprise.Tenant, string) reprise.Quota { return reprise.Quota{} },
	}
	log := openLog(t, store, opts)
	synctest.Wait() // until they are counted
	same := func(when string, log *reprise.Log) {
		t.Helper()
		page, err := log.List(t.Context(), reprise.ListQuery{Tenant: reprise.DefaultTenant, Limit: 100})
		check(t, err)
		want := map[string]reprise.Size{}
		for _, info := range page.Streams {
			for _, account := range []string{"", info.Config.Account()} {
				size := want[account]
				size.Streams++
				size.Events += int64(info.Kept())
				size.Bytes += info.Bytes + info.Overhead()
				want[account] = size
			}
		}
		for _, account := range []string{"", "a", "b", "c"} {
			if got := log.UsageOf(reprise.DefaultTenant, account); got != want[account] {
				t.Errorf("%s, account %q: %+v, want %+v", when, account, got, want[account])
			}
		}
	}
	for i, account := range []string{"a", "a", "b"} {
		s, err := createFor(t.Context(), log, fmt.Sprint("s", i), account)
		check(t, err)
		add(t, s, numbered(1, 3)...)
	}
	same("three streams", log)
	check(t, log.Remove(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s0"}))
	same("a removal", log)
	again, err := createFor(t.Context(), log, "s1", "b")
	check(t, err)
	if info, err := again.Info(t.Context()); err != nil || info.Config.Account() != "a" || info.Tail != 3 {
		t.Errorf("the stream of another account was found as %+v, %v", info.Config, err)
	}
	check(t, log.Close())
	log = openLog(t, store, opts)
	synctest.Wait() // until they are counted
	same("a restart", log)
	if _, err := createFor(t.Context(), log, "s1", "c"); err != nil { // it is not in memory now
		t.Errorf("the stream of another account: %v", err)
	}
}

// TestQuotaHoldsEventsBesideTheEnd: a stream can end whatever its account keeps. What is appended together with the end
// is held to the quota, as the same events before it would be.
func TestQuotaHoldsEventsBesideTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, memory(t), &reprise.Options{
			Quota: func(_ reprise.Tenant, account string) reprise.Quota {
				if account == "" {
					return reprise.Quota{}
				}
				return reprise.Quota{Bytes: 8000}
			},
		})
		synctest.Wait() // until what accounts keep is counted
		full, err := createFor(t.Context(), log, "full", "a")
		check(t, err)
		one, err := createFor(t.Context(), log, "one", "a")
		check(t, err)
		two, err := createFor(t.Context(), log, "two", "a")
		check(t, err)
		large := reprise.Event{Type: "note", Data: make([]byte, 5000)}
		add(t, full, large)
		_, err = one.End(t.Context(), "completed", reprise.Event{})
		check(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := two.Appender(t.Context(), nil).End("completed", large, reprise.Event{})
			ended <- err
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Fatalf("ended over the quota: %v", err)
		default:
		}
		check(t, full.Remove(t.Context()))
		check(t, <-ended)
	})
}

// TestQuotasOfStreamsAndBytes: the bounds of an account and of a tenant refuse, name themselves, and free again.
func TestQuotasOfStreamsAndBytes(t *testing.T) {
	for _, of := range []string{"principal", "tenant"} {
		synctest.Test(t, func(t *testing.T) {
			log := openLog(t, memory(t), &reprise.Options{
				Quota: func(tenant reprise.Tenant, account string) reprise.Quota {
					if tenant == reprise.DefaultTenant && (account == "") == (of == "tenant") {
						return reprise.Quota{Streams: 2, Bytes: 8000}
					}
					return reprise.Quota{}
				},
			})
			synctest.Wait() // until what accounts keep is counted
			refused := func(quota string, err error) {
				t.Helper()
				e, ok := errors.AsType[*reprise.QuotaError](err)
				if !ok || !errors.Is(err, reprise.ErrQuota) || e.Quota != quota || e.Of != of {
					t.Errorf("%v, want %s of the %s", err, quota, of)
				}
			}
			one, err := createFor(t.Context(), log, "one", "a")
			check(t, err)
			two, err := createFor(t.Context(), log, "two", "a")
			check(t, err)
			for range 3 {
				_, err = createFor(t.Context(), log, "three", "a")
				refused("streams", err)
			}
			if _, err = createFor(t.Context(), log, "two", "a"); err != nil {
				t.Errorf("one that is there: %v", err)
			}
			_, err = createFor(t.Context(), log, "other", "b")
			if of == "tenant" {
				refused("streams", err)
			} else {
				check(t, err)
			}
			large := reprise.Event{Type: "note", Data: make([]byte, 5000)}
			add(t, one, large)
			for range 3 {
				_, err = two.Append(t.Context(), large)
				refused("bytes", err)
			}
			_, err = one.Append(t.Context(), large) // it does not give up its own events either
			refused("bytes", err)
			check(t, one.Remove(t.Context()))
			add(t, two, large)
			three, err := createFor(t.Context(), log, "three", "a")
			check(t, err)
			check(t, three.Remove(t.Context()))
		})
	}
}
