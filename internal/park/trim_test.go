package park

import "testing"

// TestCollectionsAreWorthIt: a large heap is not collected for the garbage of a few responses.
func TestCollectionsAreWorthIt(t *testing.T) {
	for _, tt := range []struct {
		parked int
		live   uint64
		want   bool
	}{
		{256, 0, true},
		{256, 60 << 20, true},
		{256, 1 << 30, false},
		{9000, 1 << 30, true},
		{9000, 16 << 30, false},
	} {
		if got := trimPays(tt.parked, tt.live); got != tt.want {
			t.Errorf("%d parked with %d live bytes: %v, want %v", tt.parked, tt.live, got, tt.want)
		}
	}
}

// TestNoCollectionForALargeHeap: nothing is set for responses that leave little, and the count goes on.
func TestNoCollectionForALargeHeap(t *testing.T) {
	trim := trimmer{live: func() uint64 { return 1 << 30 }}
	defer trim.stop()
	for range 8 * trimAt {
		trim.note()
	}
	if trim.timer != nil {
		t.Error("a collection is set")
	}
	for range 10 * trimAt {
		trim.note()
	}
	if trim.timer == nil {
		t.Error("no collection is set for many")
	}
}
