package isolation

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTenantsAreSeparate: commands of more than one tenant need a least level and a user for each tenant.
func TestTenantsAreSeparate(t *testing.T) {
	users := func(ids ...int) map[string]*User {
		all := map[string]*User{}
		for i, id := range ids {
			all[[]string{"acme", "globex"}[i]] = &User{UID: id}
		}
		return all
	}
	numbers, err := OpenUserRange(1_900_000_000, 2, filepath.Join(t.TempDir(), "users"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config Config
		reason string // "" if it is enough
	}{
		"nothing":                {Config{}, "--least-isolation landlock"},
		"too weak":               {Config{Least: Limits, Users: users(70001, 70002)}, "--least-isolation landlock"},
		"shared and too weak":    {Config{SharedUser: true}, "--least-isolation landlock"},
		"no user":                {Config{Least: Landlock}, "acme has none"},
		"one user":               {Config{Least: Landlock, Users: users(70001)}, "globex has none"},
		"user for all":           {Config{Least: Landlock, User: &User{UID: 70001}}, "acme has none"},
		"same user":              {Config{Least: Landlock, Users: users(70001, 70001)}, "globex has that of acme"},
		"the server's user":      {Config{Least: Landlock, Users: users(70001, os.Geteuid())}, "that of the server"},
		"two users":              {Config{Least: Landlock, Users: users(70001, 70002)}, ""},
		"two users, bubblewrap":  {Config{Least: Bubblewrap, Users: users(70001, 70002)}, ""},
		"range":                  {Config{Least: Landlock, Range: numbers}, ""},
		"range and one user":     {Config{Least: Landlock, Range: numbers, Users: users(70001)}, ""},
		"range that is too weak": {Config{Range: numbers}, "--least-isolation landlock"},
		"shared":                 {Config{Least: Landlock, SharedUser: true}, ""},
	} {
		if err := c.config.Separate([]string{"acme", "acme"}); err != nil {
			t.Errorf("%s, one tenant: %v", name, err)
		}
		err := c.config.Separate([]string{"globex", "acme"})
		if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
	}
}

// TestUserOfRangeIsForEver: no two tenants ever have the same user, also after a restart.
func TestUserOfRangeIsForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	open := func() *UserRange {
		t.Helper()
		r, err := OpenUserRange(1_900_000_000, 20, path)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r, had := open(), map[int]string{}
	var mu sync.Mutex
	var taking sync.WaitGroup
	for tenant := range strings.SplitSeq("abcdefghij", "") {
		taking.Go(func() {
			u, err := r.User(tenant)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || had[u.UID] != "" || u.GID != u.UID || u.UID < 1_900_000_000 || u.UID >= 1_900_000_020 {
				t.Errorf("%s: %+v, %v", tenant, u, err)
				return
			}
			had[u.UID] = tenant
		})
	}
	taking.Wait()
	r = open()
	for id, tenant := range had {
		if u, err := r.User(tenant); err != nil || u.UID != id {
			t.Errorf("%s had %d, and has %+v, %v", tenant, id, u, err)
		}
	}
	for i := range 10 {
		u, err := r.User("later-" + string(rune('a'+i)))
		if err != nil || had[u.UID] != "" {
			t.Fatalf("%+v, %v", u, err)
		}
		had[u.UID] = "later"
	}
	if u, err := r.User("one-too-many"); err == nil {
		t.Errorf("%+v", u)
	}
	for _, bad := range [][2]int{{0, 10}, {-5, 10}, {5000, 0}, {1 << 31, 5}, {1<<31 - 10, 100}} {
		if _, err := OpenUserRange(bad[0], bad[1], path); err == nil {
			t.Errorf("%v is taken as a range", bad)
		}
	}
	if _, err := OpenUserRange(1, 70000, path); err == nil {
		t.Error("a range with accounts of this machine is taken")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenUserRange(1_900_000_000, 20, path); err == nil {
		t.Error("a file that cannot be read is taken")
	}
}
