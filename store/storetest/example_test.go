package storetest_test

import (
	"testing"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/storetest"
)

// mystore is a backend of your own; here it is one of ours.
var mystore = memstore.New

// The whole conformance test of a backend. One that keeps its data in a file would
// open it in tb.TempDir() and say Persistent.
func Example() {
	open := func(testing.TB) storetest.Harness {
		return storetest.Harness{
			Open: func() (reprise.Store, error) { return mystore(nil), nil },
		}
	}

	// func TestConformance(t *testing.T)
	_ = func(t *testing.T) { storetest.Run(t, open, nil) }

	// func BenchmarkStore(b *testing.B)
	_ = func(b *testing.B) { storetest.Benchmark(b, open, nil) }
}
