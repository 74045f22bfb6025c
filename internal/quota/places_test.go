package quota_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"reprise"
	"reprise/internal/quota"
)

// TestPlacesAreSharedByTenants: a tenant that asks for more places than there are leaves some to others.
func TestPlacesAreSharedByTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := quota.NewPlaces(2)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		var releases []func()
		took, refused := 0, 0
		var mu sync.Mutex // guards these
		for range 5 {
			go func() {
				release, err := places.Take(ctx, "acme")
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					if !errors.Is(err, gone) {
						t.Error(err)
					}
					refused++
					return
				}
				took++
				releases = append(releases, release)
			}()
			synctest.Wait()
		}
		if took != 1 {
			t.Fatalf("a tenant holds %d places", took)
		}
		for _, other := range []reprise.Tenant{"globex", "globex"} {
			release, err := places.Take(t.Context(), other)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		releases[0]()
		synctest.Wait()
		if took != 2 {
			t.Errorf("%d have had a place after one is free", took)
		}
		cancel(gone)
		synctest.Wait()
		if refused != 3 {
			t.Errorf("%d of 3 stop waiting", refused)
		}
		releases[1]()
		if release, err := places.Take(t.Context(), "acme"); err != nil {
			t.Error(err)
		} else {
			release()
		}
	})
}
