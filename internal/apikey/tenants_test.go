package apikey_test

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/internal/apikey"
	"reprise/internal/identity"
	"reprise/internal/journal"
)

// TestSecondTenantIsAskedFor: the check sees the tenants with a valid key that runs commands, and decides about one
// more, however many keys are made at once.
func TestSecondTenantIsAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	r := open(t, journal.File(path), nil)
	one := func(tenants []string) error {
		slices.Sort(tenants)
		if len(slices.Compact(tenants)) > 1 {
			return errors.New("one tenant only")
		}
		return nil
	}
	ok(t, r.Separate(one))
	runner := func(tenant reprise.Tenant) apikey.Request {
		return apikey.Request{
			Name: "ci", Tenant: tenant, Scopes: []identity.Grant{{Scope: identity.ScopeRun, Prefix: "ci-"}},
		}
	}
	var mu sync.Mutex
	var made []apikey.Key
	var adding sync.WaitGroup
	for _, tenant := range []reprise.Tenant{"a", "b", "c", "d"} {
		adding.Go(func() {
			key, _, err := r.Add(t.Context(), runner(tenant))
			mu.Lock()
			defer mu.Unlock()
			if field, _ := apikey.Field(err); err == nil {
				made = append(made, key)
			} else if field != "tenant" {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	if len(made) != 1 {
		t.Fatalf("%d keys were made", len(made))
	}
	add(t, r, runner(made[0].Tenant))
	add(t, r, apikey.Request{Name: "reader", Tenant: "other", Scopes: reader.Scopes})
	short := runner(made[0].Tenant)
	short.Expires = time.Now().Add(time.Hour)
	add(t, r, short)
	for _, key := range r.List() {
		if _, err := r.Revoke(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
	}
	add(t, r, runner("other"))
	r.Close()
	later := open(t, journal.File(path), nil)
	if err := later.Separate(func(tenants []string) error { return one(append(tenants, "of an issuer")) }); err == nil {
		t.Error("what exists was not looked at")
	}
}
