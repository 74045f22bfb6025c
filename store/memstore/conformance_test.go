package memstore_test

import (
	"testing"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/storetest"
)

func open(testing.TB) storetest.Harness {
	return storetest.Harness{Open: func() (reprise.Store, error) { return memstore.New(nil), nil }}
}

func TestConformanceWithContract(t *testing.T) { storetest.Run(t, open, nil) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, open, nil) }
