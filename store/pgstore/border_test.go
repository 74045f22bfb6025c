package pgstore

import (
	"testing"

	"reprise"
	"reprise/store/storetest"
)

func TestNoErrorOfADriverLeavesTheStore(t *testing.T) { storetest.Border(t, storeError) }

// TestRowsAreLockedInOrder: calls with the same streams in different orders lock their rows in one order, so that none
// waits for the other.
func TestRowsAreLockedInOrder(t *testing.T) {
	var reqs []reprise.AppendRequest
	for _, key := range []reprise.StreamKey{
		{Tenant: "b", Name: "a"}, {Tenant: "a", Name: "z"}, {Tenant: "a", Name: "y"},
	} {
		reqs = append(reqs, reprise.AppendRequest{Key: key})
	}
	c := newCommit(reqs)
	for i, want := range []string{"y", "z", "a"} {
		if got := c.at(i).Key.Name; got != want {
			t.Errorf("place %d has %s, want %s", i, got, want)
		}
	}
}
