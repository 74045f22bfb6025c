//go:build amd64 || arm64

package isolation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMovable names the directories above a mask in which commands rename entries.
func TestMovable(t *testing.T) {
	base, err := os.MkdirTemp("", "isolation-*") // which another user gets to
	must(t, err)
	defer os.RemoveAll(base)
	above := filepath.Join(base, "above")
	data, jobs := filepath.Join(above, "data"), filepath.Join(base, "jobs")
	must(t, errors.Join(os.MkdirAll(data, 0o700), os.Mkdir(jobs, 0o700)))
	m := masks(t, data)
	open := func(dirs ...string) Directories { return Directories{Writable: dirs} }
	other := &User{UID: 1234, GID: 1234}
	for name, c := range map[string]struct {
		config Config
		want   []string
	}{
		"no least level":  {Config{}, nil},
		"elsewhere":       {Config{Least: Landlock, Directories: open(jobs)}, nil},
		"the data itself": {Config{Least: Landlock, Directories: open(data)}, nil},
		"right above":     {Config{Least: Landlock, Directories: open(above)}, []string{above}},
		"further above":   {Config{Least: Bubblewrap, Directories: open(jobs, base)}, []string{base, above}},
		"for a tenant": {
			Config{Least: Landlock, Tenants: map[string]Directories{"acme": open(above)}},
			[]string{above},
		},
		"limits, another user": {Config{Least: Limits, User: other}, nil},
	} {
		c.config.Masks = m
		if got := c.config.Movable(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	must(t, os.Chmod(base, 0o777))
	must(t, os.Chmod(above, 0o777|os.ModeSticky))
	limits := Config{Least: Limits, Masks: m}
	if got := limits.Movable(); !slices.Contains(got, base) || !slices.Contains(got, above) {
		t.Errorf("our own user: %q", got)
	}
	limits.User = other
	if got := limits.Movable(); !slices.Contains(got, base) || slices.Contains(got, above) {
		t.Errorf("another user: %q", got)
	}
}
