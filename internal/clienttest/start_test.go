package clienttest_test

import (
	"runtime"
	"testing"
)

// heapAtStart is what the packages of this program hold before any test runs.
var heapAtStart uint64

// heap returns the bytes that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestCasesTakeNoMemoryBeforeTheyRun: every process of reprise has this package, supervisors of commands too.
func TestCasesTakeNoMemoryBeforeTheyRun(t *testing.T) {
	if heapAtStart > 8<<20 {
		t.Errorf("%d bytes at the start", heapAtStart)
	}
}
