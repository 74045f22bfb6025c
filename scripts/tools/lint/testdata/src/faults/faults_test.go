package faults

import (
	"os"
	"testing"
)

// In tests errors may go unchecked; that h is nil may not go unseen.
func TestFaults(t *testing.T) {
	os.Remove("x")
	var h *holder
	t.Log(h.life) // want nilness
}

func unused() {} // want U1000
