package quota_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/quota"
)

func holder(tenant reprise.Tenant, name string) *quota.Holder {
	return &quota.Holder{Account: quota.Account{Tenant: tenant, Principal: name}}
}

// refusal returns the *quota.Error of a refusal.
func refusal(t *testing.T, err error) *quota.Error {
	t.Helper()
	e, ok := errors.AsType[*quota.Error](err)
	if !ok {
		t.Fatalf("not refused by a quota: %v", err)
	}
	return e
}

func TestBoundsOfPrincipalsAndTenants(t *testing.T) {
	b := quota.New(&quota.Options{
		Principal: quota.Limits{quota.Readers: 2},
		Tenant:    quota.Limits{quota.Readers: 3},
		Tenants:   map[reprise.Tenant]quota.Limits{"large": {quota.Readers: 5}},
	})
	take := func(h *quota.Holder) func() {
		t.Helper()
		release, err := b.Take(h, quota.Readers)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	a, other := holder("acme", "a"), holder("acme", "b")
	first := take(a)
	take(a)
	for range 3 {
		_, err := b.Take(a, quota.Readers)
		if e := refusal(t, err); e.Of != quota.OfPrincipal || e.Limit != 2 || !errors.Is(e, reprise.ErrTooManyReaders) {
			t.Errorf("%+v", e)
		}
	}
	take(other)
	_, err := b.Take(other, quota.Readers)
	if e := refusal(t, err); e.Of != quota.OfTenant || e.Limit != 3 {
		t.Errorf("%+v", e)
	}
	first()
	first() // once is enough
	take(other)
	if n := b.Used(quota.Account{Tenant: "acme"}, quota.Readers); n != 3 {
		t.Errorf("the tenant uses %d", n)
	}
	own := holder("large", "c")
	own.Limits = quota.Limits{quota.Readers: 5}
	for range 5 {
		take(own)
	}
	operator := holder("default", "token")
	operator.Operator = true
	for range 3 { // of its tenant's bound, and no other
		take(operator)
	}
	_, err = b.Take(operator, quota.Readers)
	if e := refusal(t, err); e.Of != quota.OfTenant {
		t.Errorf("%+v", e)
	}
	if release := b.Hold(operator, quota.Readers); b.Used(operator.Account, quota.Readers) != 4 {
		t.Error("what is there already is not counted")
	} else {
		release()
	}
}

// TestAnonymousHolderIsCountedForItsTenantOnly: a holder without a name is counted for its tenant alone.
func TestAnonymousHolderIsCountedForItsTenantOnly(t *testing.T) {
	b := quota.New(&quota.Options{Tenant: quota.Limits{quota.Readers: 2, quota.Starts: 2}})
	nobody := holder("acme", "")
	for range 2 {
		if _, err := b.Take(nobody, quota.Readers); err != nil {
			t.Error(err)
		}
		if err := b.Spend(nobody, quota.Starts, 1); err != nil {
			t.Error(err)
		}
	}
	if n := b.Used(nobody.Account, quota.Readers); n != 2 {
		t.Errorf("%d are counted", n)
	}
}

func TestRatesComeBackEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := quota.New(&quota.Options{
			Principal: quota.Limits{quota.Starts: 60}, Tenant: quota.Limits{quota.Starts: 90},
		})
		a, other := holder("acme", "a"), holder("acme", "b")
		spend := func(h *quota.Holder, times int) {
			t.Helper()
			for i := range times {
				if err := b.Spend(h, quota.Starts, 1); err != nil {
					t.Fatalf("number %d: %v", i, err)
				}
			}
		}
		spend(a, 60)
		e := refusal(t, b.Spend(a, quota.Starts, 1))
		if e.Of != quota.OfPrincipal || e.RetryAfter != time.Second {
			t.Errorf("%+v", e)
		}
		spend(other, 30)
		if e := refusal(t, b.Spend(other, quota.Starts, 1)); e.Of != quota.OfTenant || e.RetryAfter != time.Second {
			t.Errorf("%+v", e)
		}
		time.Sleep(e.RetryAfter)
		spend(a, 1)
		refusal(t, b.Spend(a, quota.Starts, 1))
		b.Refund(a, quota.Starts, 1)
		spend(a, 1)
		time.Sleep(10 * time.Second)
		spend(a, 10)
		refusal(t, b.Spend(a, quota.Starts, 1))
		time.Sleep(time.Hour) // and no more than all of it
		spend(a, 60)
		if n := b.Used(a.Account, quota.Starts); n != 60 {
			t.Errorf("%d are used", n)
		}
		p := refusal(t, b.Spend(a, quota.Starts, 1)).Problem("")
		if p.Code != problem.CodeRateLimited || p.Quota != "starts" || p.QuotaOf != "principal" ||
			p.RetryAfter != time.Second {
			t.Errorf("%+v", p)
		}
	})
}

// TestEveryQuotaTellsWhenToTryAgain: each refusal has a stable code, is retryable, and names an interval: for a rate
// the time until there is enough, and a constant for what somebody has to give back.
func TestEveryQuotaTellsWhenToTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := quota.Limits{}
		for _, name := range quota.New(nil).Names() {
			limits[name] = 0
		}
		for name, want := range map[quota.Name]struct {
			code  problem.Code
			after time.Duration
		}{
			quota.Running:  {problem.CodeQuotaExceeded, 10 * time.Second},
			quota.Queued:   {problem.CodeQuotaExceeded, 10 * time.Second},
			quota.Streams:  {problem.CodeQuotaExceeded, 10 * time.Second},
			quota.Bytes:    {problem.CodeQuotaExceeded, 10 * time.Second},
			quota.Sessions: {problem.CodeQuotaExceeded, 10 * time.Second},
			quota.Calls:    {problem.CodeQuotaExceeded, 10 * time.Second},
			quota.Readers:  {problem.CodeTooManyReaders, 5 * time.Second},
			quota.Starts:   {problem.CodeRateLimited, 15 * time.Second},
			quota.Requests: {problem.CodeRateLimited, 15 * time.Second},
			quota.Upload:   {problem.CodeRateLimited, 15 * time.Second},
		} {
			a := holder("acme", "a")
			a.Limits = quota.Limits{name: 4}
			b := quota.New(nil)
			var err error
			if want.code == problem.CodeRateLimited {
				for range 5 { // the fifth comes back in a quarter of a minute
					err = b.Spend(a, name, 1)
				}
			} else {
				err = b.Check(a, quota.OfPrincipal, name, 4)
			}
			p := refusal(t, err).Problem("")
			if p.Code != want.code || p.RetryAfter != want.after || !p.Retryable || p.Status != 429 ||
				p.Quota != string(name) {
				t.Errorf("%s: %+v, want %+v", name, p, want)
			}
			delete(limits, name)
		}
		if len(limits) != 0 {
			t.Errorf("not looked at: %v", limits)
		}
		a := holder("acme", "a")
		a.Limits = quota.Limits{quota.Requests: 4}
		if e := refusal(t, quota.New(nil).Spend(a, quota.Requests, 5)); e.RetryAfter != time.Minute {
			t.Errorf("more than the limit: %+v", e)
		}
	})
}

func TestUploadsAreCutOffAtTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := quota.New(nil)
		a := holder("acme", "a")
		a.Limits = quota.Limits{quota.Upload: 1000}
		read, err := io.ReadAll(b.Upload(a, bytes.NewReader(make([]byte, 1000))))
		if err != nil || len(read) != 1000 { // also the end, of which nothing is left to take
			t.Fatalf("%d bytes, %v", len(read), err)
		}
		time.Sleep(30 * time.Second)
		read, err = io.ReadAll(b.Upload(a, bytes.NewReader(make([]byte, 1000))))
		if refusal(t, err).Quota != quota.Upload || len(read) != 500 {
			t.Errorf("%d bytes, %v", len(read), err)
		}
	})
}

// TestTenThousandPrincipalsAreForgotten: what is remembered of principals goes when they use nothing any more, and is
// small until then.
func TestTenThousandPrincipalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := quota.New(&quota.Options{Principal: quota.Limits{quota.Starts: 60, quota.Readers: 5}})
		const principals = 10_000
		before := heap()
		var releases []func()
		for round := range 2 {
			for i := range principals {
				h := holder("acme", fmt.Sprint(round, "-", i))
				release, err := b.Take(h, quota.Readers)
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Spend(h, quota.Starts, 1); err != nil {
					t.Fatal(err)
				}
				releases = append(releases, release)
			}
			for _, release := range releases {
				release()
			}
			releases = nil
			time.Sleep(time.Minute)
		}
		if n := b.Accounts(); n > 2*principals+2 {
			t.Errorf("%d accounts are remembered after %d", n, 2*principals)
		}
		if grown := heap() - before; grown > 2000*2*principals {
			t.Errorf("%d bytes for %d accounts", grown, b.Accounts())
		}
		for i := range 2 * principals { // others come, and those before are forgotten
			release, err := b.Take(holder("acme", fmt.Sprint("x", i)), quota.Readers)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		if err := b.Spend(holder("acme", "last"), quota.Starts, 1); err != nil {
			t.Fatal(err)
		}
		if n := b.Accounts(); n > 2*principals+2 {
			t.Errorf("%d accounts are remembered", n)
		}
	})
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestConcurrentTakesStayWithinTheBound: a bound holds under concurrent calls, and everything taken is given back.
func TestConcurrentTakesStayWithinTheBound(t *testing.T) {
	b := quota.New(&quota.Options{Tenant: quota.Limits{quota.Sessions: 10}})
	var all sync.WaitGroup
	var mu sync.Mutex
	var releases []func()
	for i := range 50 {
		all.Go(func() {
			for range 20 {
				if release, err := b.Take(holder("acme", fmt.Sprint(i)), quota.Sessions); err == nil {
					mu.Lock()
					releases = append(releases, release)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if len(releases) != 10 {
		t.Errorf("%d were taken", len(releases))
	}
	for _, release := range releases {
		release()
	}
	if n := b.Accounts(); n != 0 {
		t.Errorf("%d accounts are remembered", n)
	}
}
