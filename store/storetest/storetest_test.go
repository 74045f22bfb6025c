package storetest

import (
	"testing"

	"reprise"
	"reprise/store/memstore"
)

func openMemory(testing.TB) Harness {
	return Harness{Open: func() (reprise.Store, error) { return memstore.New(nil), nil }}
}

func TestMemoryStorePasses(t *testing.T) { Run(t, openMemory, nil) }

// TestPersistentStorePasses runs the checks that need a Store which can be opened again.
func TestPersistentStorePasses(t *testing.T) {
	Run(t, openPlace, &Options{Events: 10_000, Streams: 1000})
}
