package isolation

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"reprise/internal/durable"
)

// For is c for the commands of a tenant. It returns the same errors as UserRange.User.
func (c *Config) For(tenant string) (Config, error) {
	of := *c
	of.Directories = c.Open(tenant)
	var err error
	switch u := c.Users[tenant]; {
	case u != nil:
		of.User = u
	case c.Range != nil:
		of.User, err = c.Range.User(tenant)
	}
	return of, err
}

// Separate returns an error unless the commands of tenants are kept from each other: none runs below the level
// Landlock, and each tenant has a user of its own or the operator has decided otherwise.
func (c *Config) Separate(tenants []string) error {
	slices.Sort(tenants)
	tenants = slices.Compact(tenants)
	if len(tenants) < 2 {
		return nil
	}
	names := strings.Join(tenants, ", ")
	if c.Least.weaker(Landlock) {
		return fmt.Errorf("commands of more than one tenant (%s) need --least-isolation landlock or bubblewrap", names)
	}
	if c.SharedUser {
		return nil
	}
	seen := map[int]string{os.Geteuid(): "the server"}
	for _, tenant := range tenants {
		u := c.Users[tenant]
		if u == nil && c.Range != nil {
			continue
		}
		if u == nil {
			return fmt.Errorf("commands of more than one tenant (%s) need a user for each, and %s has none: "+
				"--run-as %s=USER or --run-as-range FIRST:COUNT; --shared-user runs them as one user all the same",
				names, tenant, tenant)
		}
		if other, taken := seen[u.UID]; taken {
			return fmt.Errorf("commands of more than one tenant (%s) need a user for each, and %s has that of %s: "+
				"--run-as %s=USER; --shared-user runs them as one user all the same", names, tenant, other, tenant)
		}
		seen[u.UID] = tenant
	}
	return nil
}

// UserRange gives each tenant a user number of its own, for ever. It is safe for concurrent use.
type UserRange struct {
	first, count int
	path         string

	mu  sync.Mutex
	ids map[string]int
}

// homeOfRange is the home directory of users that no account describes.
const homeOfRange = "/home/command"

// OpenUserRange returns the users from first on. Which tenant has which one is kept in a file at path. No account of
// this machine may lie in the range.
func OpenUserRange(first, count int, path string) (*UserRange, error) {
	if first <= 0 || count <= 0 || first+count-1 > 1<<31-2 {
		return nil, fmt.Errorf("%d:%d is no range of users: FIRST is at least 1, COUNT too", first, count)
	}
	if err := free(first, count); err != nil {
		return nil, err
	}
	r := &UserRange{first: first, count: count, path: path, ids: map[string]int{}}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(text, &r.ids); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// free returns an error if an account or group of this machine is in a range.
func free(first, count int) error {
	for _, path := range []string{"/etc/passwd", "/etc/group"} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Split(lines.Text(), ":")
			if len(fields) < 3 {
				continue
			}
			if id, err := strconv.Atoi(fields[2]); err == nil && id >= first && id < first+count {
				return fmt.Errorf("%s of %s has the number %d, which is in the range", fields[0], path, id)
			}
		}
	}
	return nil
}

// User returns the user of a tenant. The first call for a tenant takes the lowest number that no other one ever had.
// The error says that there is none left, or that it could not be kept.
func (r *UserRange) User(tenant string) (*User, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, known := r.ids[tenant]
	if !known {
		taken := slices.Collect(maps.Values(r.ids))
		for id = r.first; slices.Contains(taken, id); id++ {
		}
		if id >= r.first+r.count {
			return nil, fmt.Errorf("no user of --run-as-range is left for the tenant %s: all %d are taken",
				tenant, r.count)
		}
		ids := maps.Clone(r.ids)
		ids[tenant] = id
		if err := r.keep(ids); err != nil {
			return nil, fmt.Errorf("the user of the tenant %s cannot be kept: %w", tenant, err)
		}
		r.ids = ids
	}
	name := strconv.Itoa(id)
	return &User{Name: name, UID: id, GID: id, Home: homeOfRange}, nil
}

// keep replaces the file, which is on the disk when keep returns.
func (r *UserRange) keep(ids map[string]int) error {
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return durable.Write(r.path, append(text, '\n'))
}
