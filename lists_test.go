package reprise_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"reprise"
	"reprise/store/memstore"
)

// TestListCursorsRevealNoOtherTenants (G8): a store numbers the streams of all tenants together, and a tenant that
// could read two of the numbers would know how many streams others have made in between.
func TestListCursorsRevealNoOtherTenants(t *testing.T) {
	keys, other := reprise.NewKeyset(), reprise.NewKeyset()
	store := memstore.New(nil)
	open := func(keys *reprise.Keyset) *reprise.Log {
		log, err := reprise.Open(t.Context(), store, &reprise.Options{Keys: keys, SweepEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
	log := open(keys)
	create := func(tenant reprise.Tenant, name string) {
		key := reprise.StreamKey{Tenant: tenant, Name: name}
		if _, _, err := log.Create(t.Context(), key, reprise.StreamConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(log *reprise.Log, tenant reprise.Tenant, after string) (names []string, next string, err error) {
		page, err := log.List(t.Context(), reprise.ListQuery{Tenant: tenant, After: after, Limit: 1})
		for i := range page.Streams {
			names = append(names, page.Streams[i].Key.Name)
		}
		return names, page.Next, err
	}
	next := func(tenant reprise.Tenant, after string) string {
		_, next, err := list(log, tenant, after)
		if err != nil || next == "" {
			t.Fatalf("the list after %q continues at %q, %v", after, next, err)
		}
		return next
	}

	create("a", "first")
	create("a", "second")
	seen := next("a", "")
	if again := next("a", ""); again != seen {
		t.Errorf("one position is %q and %q", seen, again)
	}
	for i := range 200 { // from two digits to three
		create("b", fmt.Sprint("s", i))
	}
	if next("a", "") != seen {
		t.Error("the streams of another tenant have changed a cursor")
	}
	create("a", "third")
	later := next("a", "")
	if half := len(later) / 2; len(later) != len(seen) || half < 8 || later[:8] == seen[:8] {
		t.Fatalf("%q and %q have different lengths, or begin alike", seen, later)
	}
	ofB := next("b", "")
	for name, wrong := range map[string]string{
		"a number of the store": "2", "another tenant's": ofB, "changed": strings.ToUpper(later),
		"cut": later[:len(later)-4], "not base64": "a b", "empty bytes": "AAAA",
	} {
		if _, _, err := list(log, "a", wrong); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a cursor that is %s: %v", name, err)
		}
	}
	if names, _, err := list(log, "a", later); err != nil || fmt.Sprint(names) != "[second]" {
		t.Errorf("the page after the first is %v, %v", names, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if names, _, err := list(open(keys), "a", later); err != nil || fmt.Sprint(names) != "[second]" {
		t.Errorf("at another replica the page after the first is %v, %v", names, err)
	}
	if _, _, err := list(open(other), "a", later); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("under other keys: %v", err)
	}
}
