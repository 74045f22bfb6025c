package recent

import "testing"

// TestMapForgetsWhatIsNotUsed: a key that is used stays, others give way, and the memory is bounded.
func TestMapForgetsWhatIsNotUsed(t *testing.T) {
	var m Map[int, string]
	if _, ok := m.Load(0); ok {
		t.Fatal("an empty Map has a key")
	}
	m.Store(0, "used")
	m.Store(1, "not used")
	for key := range 3 * Bound {
		m.Store(2+key, "")
		if key%(Bound/2) == 0 {
			if value, ok := m.Load(0); !ok || value != "used" {
				t.Fatalf("after %d others: %q, %v", key, value, ok)
			}
		}
	}
	if _, ok := m.Load(1); ok {
		t.Error("a key that is not used stays")
	}
	if _, ok := m.Load(1 + 3*Bound); !ok {
		t.Error("the newest key is gone")
	}
	m.Store(0, "changed")
	if value, _ := m.Load(0); value != "changed" {
		t.Errorf("%q", value)
	}
	if n := m.Len(); n > 2*Bound {
		t.Errorf("%d keys are remembered", n)
	}
}
